"""Edits of `splat export`, in order of application; selection, order and merging of splats."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from splat_cli.errors import UsageError
from splat_cli.gaussians.arrays import SplatArrays, limit_sh_degree, opacities
from splat_cli.gaussians.editing.move import rotated, rotation_about_axes, scaled, translated, with_origin
from splat_cli.gaussians.morton import curve_positions
from splat_cli.scene.crop import Crop
from splat_cli.scene.georeferenced import relative_crop
from splat_cli.scene.poses import Similarity


def coverage(splats: SplatArrays) -> np.ndarray:
    """Logarithm of opacity times area of the two longer axes, float64 [N].

    Upper bound of the area that a splat covers; occlusion is ignored.
    """
    longer = np.sort(splats.log_scales.astype(np.float64), axis=1)[:, 1:].sum(axis=1)
    with np.errstate(divide="ignore"):
        return np.log(opacities(splats)) + longer


def keep_largest(splats: SplatArrays, strengths: np.ndarray, count: int) -> SplatArrays:
    """The `count` splats with the largest `strengths` [N], in their original order."""
    if len(splats) <= count:
        return splats
    return splats.select(np.sort(np.argsort(-strengths, kind="stable")[:count]))


def in_morton_order(splats: SplatArrays) -> SplatArrays:
    """The splats sorted along a Morton curve."""
    if len(splats) == 0:
        return splats
    return splats.select(np.argsort(curve_positions(splats.means), kind="stable"))


def merged(parts: list[SplatArrays]) -> SplatArrays:
    """All splats of one or more sets, relative to the first origin that a set has. Missing SH coefficients are zero."""
    origin = next((part.origin for part in parts if any(part.origin)), parts[0].origin)
    parts = [with_origin(part, origin) for part in parts]
    k = max(part.shN.shape[1] for part in parts)
    padded = [np.pad(part.shN, ((0, 0), (0, k - part.shN.shape[1]), (0, 0))) for part in parts]
    names = [name for name in parts[0].arrays() if name != "shN"]
    arrays: dict[str, Any] = {name: np.concatenate([part.arrays()[name] for part in parts]) for name in names}
    return SplatArrays(
        **arrays,
        shN=np.concatenate(padded),
        num_dropped=sum(part.num_dropped for part in parts),
        dropped_sh_degree=max(part.dropped_sh_degree for part in parts),
        antialiased=any(part.antialiased for part in parts),
        origin=origin,
    )


_MAX_SH_DEGREE = 3


def scale_between(a: Iterable[float], b: Iterable[float], length: float) -> float:
    """Factor that puts points `a` and `b` [3] `length` apart. UsageError if they are at one place."""
    distance = math.dist(tuple(a), tuple(b))
    if not 0 < length / (distance or math.inf) < math.inf:
        raise UsageError("both points of --scale-by are at one place: name two different ones")
    return length / distance


@dataclass(frozen=True)
class SplatStats:
    """Properties of N splats that files do not contain; None if not computed."""

    contributions: np.ndarray | None = None
    """[N] mean contribution to a view, in pixels (render/view.py)."""
    goes: np.ndarray | None = None
    """[N] whether cleaning removes the splat (commands/clean.py)."""


@dataclass(frozen=True)
class Edits:
    """Changes to splats; None and False: no change.

    Order: removal, in the coordinates of the file; scaling, rotation and translation, about the origin; limits of
    number and SH degree; sorting.
    """

    crop: Crop | None = None
    min_opacity: float | None = None
    min_size: float | None = None
    """Limit of the longest axis, as a standard deviation in world units."""
    max_size: float | None = None
    clean: float | None = None
    """Strength of cleaning: removes floaters, needles and splats that no picture needs."""
    min_contribution: float | None = None
    """Limit of the mean contribution, in pixels per view."""
    scale: float | None = None
    rotate: tuple[float, float, float] | None = None
    """Angles of rotation about x, then y, then z, degrees."""
    translate: tuple[float, float, float] | None = None
    max_splats: int | None = None
    sh_degree: int | None = None
    morton: bool = False

    def __post_init__(self) -> None:
        """UsageError for values out of range."""
        if self.max_splats is not None and self.max_splats < 1:
            raise UsageError(f"max_splats = {self.max_splats}: expected 1 or more")
        if self.sh_degree is not None and not 0 <= self.sh_degree <= _MAX_SH_DEGREE:
            raise UsageError(f"sh_degree = {self.sh_degree}: expected 0 to {_MAX_SH_DEGREE}")
        for name in ("scale", "clean"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise UsageError(f"{name} = {value}: expected a number over 0")

    @property
    def is_moving(self) -> bool:
        """Whether splats are scaled, rotated or translated; their origin is then lost."""
        return not (self.scale is None and self.rotate is None and self.translate is None)

    def similarity(self) -> Similarity:
        """The similarity transform: scaling, rotation, translation."""
        rotation = np.eye(3) if self.rotate is None else rotation_about_axes(self.rotate)
        return Similarity(self.scale or 1.0, rotation, np.array(self.translate or (0.0, 0.0, 0.0)))

    @np.errstate(over="ignore", invalid="ignore")
    def apply(self, splats: SplatArrays, found: SplatStats | None = None) -> SplatArrays:
        """The edited splats; positions out of the range of float32 become infinite.

        found: contributions, for min_contribution and max_splats, and the splats to clean away.
        """
        found = found or SplatStats()
        strengths = coverage(splats) if found.contributions is None else found.contributions
        kept = self._kept(splats, found)
        if not kept.all():
            splats, strengths = splats.select(kept), strengths[kept]
        if self.max_splats is not None:
            splats = keep_largest(splats, strengths, self.max_splats)
        if self.scale is not None:
            splats = scaled(splats, self.scale)
        if self.rotate is not None:
            splats = rotated(splats, rotation_about_axes(self.rotate))
        if self.translate is not None:
            splats = translated(splats, self.translate)
        if self.sh_degree is not None:
            splats = limit_sh_degree(splats, self.sh_degree)
        return in_morton_order(splats) if self.morton else splats

    def _kept(self, splats: SplatArrays, found: SplatStats) -> np.ndarray:
        """Mask bool [N] of splats that no rule removes."""
        kept = np.ones(len(splats), bool)
        sizes = splats.longest_axes()
        if self.crop is not None:
            kept &= relative_crop(self.crop, np.array(splats.origin)).contains(splats.means)
        if self.min_opacity is not None:
            kept &= opacities(splats) >= self.min_opacity
        if self.min_size is not None:
            kept &= sizes >= self.min_size
        if self.max_size is not None:
            kept &= sizes <= self.max_size
        if self.clean is not None:
            assert found.goes is not None
            kept &= ~found.goes
        if self.min_contribution is not None:
            assert found.contributions is not None
            kept &= found.contributions >= self.min_contribution
        return kept
