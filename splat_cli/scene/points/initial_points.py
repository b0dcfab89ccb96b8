"""Initial points: those of a dataset that are used, random ones, and points of the sky.

Structure from motion and plane sweeps find no points in a plain sky. Without splats there, training fills it with
floaters near the cameras, which held-out views see from the side. Points of the sky are far away, in directions where
photographs from several places show the same colour. Plain walls have the same colour in all photographs, too, so no
points are added behind known points.
"""

from collections.abc import Sequence
from typing import TypeGuard

import numpy as np

from splat_cli.device import ceil_div
from splat_cli.errors import SceneError
from splat_cli.scene.dataset import Points, SceneOptions
from splat_cli.scene.extent import scene_extent
from splat_cli.scene.images.downscale import nearest_mask, small_copies
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.view import View, evenly_spread

_SHARE_OF_DISTANCE = 0.5  # half side of the random cube / distance of the cameras from what they look at
_BACKGROUND = 8.0  # maximum distance of points, in sides of the cube
_BLOCK = 1 << 16
_CHECKED, _MIN_IN_VIEW = 10_000, 0.05
_AROUND_EXTENT = 3.0  # the same, times the scene's extent, where cameras look outwards


def kept_points(points: Points, options: SceneOptions) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    """Positions float32 [P, 3], colours uint8 [P, 3], numbers dropped by reason. SceneError if options leave none."""
    with np.errstate(over="ignore", invalid="ignore"):  # overflow to infinity: dropped
        positions = points.positions.astype(np.float32, copy=False)
    keep = np.isfinite(positions).all(axis=1)
    dropped = {"noise": points.num_noise, "not finite": int((~keep).sum())}

    def drop(reason: str, bad: np.ndarray) -> None:
        nonlocal keep
        dropped[reason] = int((keep & bad).sum())
        keep = keep & ~bad

    drop("duplicates", ~_is_first(positions))
    if options.min_track_length and _is_known(points.track_lengths):
        drop(f"in fewer than {options.min_track_length} photographs", points.track_lengths < options.min_track_length)
    if options.max_point_error is not None and _is_known(points.errors):
        drop(f"off by more than {options.max_point_error:g} pixels", ~(points.errors <= options.max_point_error))
    if options.crop is not None:
        drop("outside the crop", ~options.crop.contains(positions))
    dropped = {reason: count for reason, count in dropped.items() if count}
    if len(positions) and not keep.any():
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
        is_damaged = dropped.keys() <= {"not finite", "duplicates"}
        advice = "write the model again, or use --init random" if is_damaged else "choose less strictly"
        raise SceneError(f"none of the {len(positions):,} points is left ({reasons}): {advice}")
    return positions[keep], points.colors[keep], dropped


def _is_known(values: np.ndarray | None) -> TypeGuard[np.ndarray]:
    """Whether the file states track lengths or errors: a model written without them has zeros."""
    return values is not None and bool(values.any())


def filters_without_effect(points: Points, options: SceneOptions) -> str:
    """Text that names options that filter points by what their file does not state; empty without any."""
    missing = ["--min-track-length"] * (options.min_track_length > 0 and not _is_known(points.track_lengths))
    missing += ["--max-point-error"] * (options.max_point_error is not None and not _is_known(points.errors))
    return f" ({' and '.join(missing)} did nothing: the points do not state it)" if missing else ""


ANY_IN_VIEW = 1e-9
"""Fraction that means: at least one."""


def out_of_view(views: Sequence[View], points: np.ndarray, what: str, least: float = _MIN_IN_VIEW) -> str | None:
    """Description of the problem if less than the fraction `least` of `points` [P, 3] is in view, else None."""
    some = points[:: max(1, len(points) // _CHECKED)].astype(np.float64)
    if not len(some):
        return None
    seen = np.zeros(len(some), bool)
    for view in views:
        seen |= view.project(some)[2]
        if seen.mean() >= least:
            return None
    spread, cameras = np.ptp(np.percentile(some, (5, 95), axis=0), axis=0).max(), scene_extent(views)
    return (
        f"{seen.mean():.1%} of the {len(points):,} {what} are in view of a camera; they spread over {spread:.3g} "
        f"units, the cameras over {2 * cameras:.3g}: {what} must have the coordinates of the camera poses, and these "
        "the axes of their format (docs/datasets.md)"
    )


def random_points(views: Sequence[View], count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """`count` grey points, float32 [P, 3] and uint8 [P, 3], around the region that the cameras view.

    Half of them are uniform in a cube around the point nearest to all optical axes (around the cameras, if these look
    outwards), the others outside it, up to 8 times as far, with decreasing density.
    """
    centers = np.array([view.center for view in views])
    forward = np.array([view.w2c[2, :3] for view in views])
    middle, side = centers.mean(axis=0), _AROUND_EXTENT * scene_extent(views)
    across = np.eye(3) - forward[:, :, None] * forward[:, None, :]  # onto the plane across each axis
    normal = across.sum(axis=0)
    if np.linalg.cond(normal) < 1e3:
        focus = np.linalg.solve(normal, (across @ centers[:, :, None]).sum(axis=0))[:, 0]
        depths = ((focus - centers) * forward).sum(axis=1)
        if np.median(depths) > 0:
            middle, side = focus, _SHARE_OF_DISTANCE * float(np.median(depths))
    offsets = rng.uniform(-1, 1, (count, 3))
    far = offsets[::2]  # a view: moved outwards along their directions
    far *= _BACKGROUND ** rng.random((len(far), 1)) / np.linalg.norm(far, axis=1, keepdims=True)
    positions = middle + side * offsets
    return positions.astype(np.float32), np.full((count, 3), 128, np.uint8)


def _is_first(positions: np.ndarray) -> np.ndarray:
    """bool [P]: no point before this one has the same coordinates."""
    rows = np.ascontiguousarray(positions + np.float32(0)).view(np.dtype((np.void, 12)))  # + 0 makes -0 the same as 0
    order = np.argsort(rows[:, 0], kind="stable")
    first = np.ones(len(positions), bool)
    for begin in range(1, len(order), _BLOCK):  # np.unique takes three times the memory
        part = rows[order[begin - 1 : begin + _BLOCK]]
        first[order[begin : begin + _BLOCK]] = (part[1:] != part[:-1])[:, 0]
    return first


_DIRECTIONS = 20_000  # 1.4 degrees apart
_MAX_VIEWS = 150  # evenly spread over all
_SIDE = 128  # px of the downscaled photographs: a pixel is about half as wide as the spacing of directions
_DISTANCE = 5.0  # relative to the 98th percentile of the points' distances from the middle of the cameras
_SOME_POINTS = 20_000  # for the test whether they cover the sky
_CELLS = 40  # across the longer side of a photograph: a point covers its cell
_MIN_VIEWS = 4
_TOLERANCE = 25  # in each channel, from the median of the views
_AGREEING = 0.6  # share of the views that see a direction
_FEWEST = 50  # directions; fewer agree by chance
_UNSEEN, _COVERED = -1, -2


def sky_points(photographs: ImageSet, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points float32 [P, 3] and colours uint8 [P, 3]; empty if few directions agree. points: known ones, [N, 3]."""
    chosen = evenly_spread(range(len(photographs.views)), _MAX_VIEWS)
    small = small_copies(photographs, chosen, _SIDE, nearest_mask)
    middle = np.median([view.center for view in small.views], axis=0)
    radius = _DISTANCE * np.quantile(np.linalg.norm(points - middle, axis=1), 0.98)
    sphere = middle + radius * sphere_directions(_DIRECTIONS)
    some = points[:: ceil_div(len(points), _SOME_POINTS)]
    seen = np.array([_colors_of(sphere, some, *photograph) for photograph in zip(*small[:3], strict=True)])
    directions = np.flatnonzero((seen[:, :, 0] >= 0).sum(axis=0) >= _MIN_VIEWS)
    colors, agree = _agreement(seen[:, directions])
    if agree.sum() < _FEWEST:
        agree[:] = False
    return sphere[directions[agree]].astype(np.float32), colors[agree]


def sphere_directions(count: int) -> np.ndarray:
    """Evenly spread unit vectors float64 [count, 3], on a spiral with the golden angle between neighbours."""
    number = np.arange(count)
    z, angle = 1 - (2 * number + 1) / count, number * np.pi * (3 - 5**0.5)
    width = np.sqrt(1 - z * z)
    return np.stack([width * np.cos(angle), width * np.sin(angle), z], axis=1)


def _colors_of(
    sphere: np.ndarray, points: np.ndarray, view: View, image: np.ndarray, mask: np.ndarray | None
) -> np.ndarray:
    """int16 [N, 3], colours of the photograph in the directions of `sphere` [N, 3]: _COVERED where points are,
    _UNSEEN outside of picture and mask."""
    colors = np.full((len(sphere), 3), _UNSEEN, np.int16)
    rows, (lines, columns) = _visible_pixels(view, sphere)
    if mask is not None:
        used = mask[lines, columns] > 0
        rows, lines, columns = rows[used], lines[used], columns[used]
    size = ceil_div(max(view.width, view.height), _CELLS)
    covered = np.zeros((view.height // size + 1, view.width // size + 1), bool)
    covered[tuple(_visible_pixels(view, points)[1] // size)] = True
    colors[rows] = np.where(covered[lines // size, columns // size, None], np.int16(_COVERED), image[lines, columns])
    return colors


def _visible_pixels(view: View, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices [P] of the points in the picture, and their pixels int [2, P] (row, column)."""
    pixels, _, inside = view.project(points)
    return np.flatnonzero(inside), pixels[inside, ::-1].astype(int).T


def _agreement(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median colours uint8 [D, 3], and bool [D]: most views show them. seen: int16 [V, D, 3]."""
    is_open = seen[:, :, 0] >= 0
    num_open = is_open.sum(axis=0)
    middle = len(seen) - num_open + num_open // 2  # sorted, the views without a colour come first
    medians = np.take_along_axis(np.sort(seen, axis=0), middle[None, :, None], axis=0)[0]
    close = is_open & (np.abs(seen - medians).max(axis=2) <= _TOLERANCE)
    return medians.astype(np.uint8), close.sum(axis=0) >= _AGREEING * (seen[:, :, 0] != _UNSEEN).sum(axis=0)
