"""Checks of photographs without poses: blur, exposure, duplicates, movement, overlap; and how long training takes."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import num_cores
from splat_cli.device.cuda import why_no_cuda
from splat_cli.errors import SceneError
from splat_cli.run.device import in_words, step_seconds
from splat_cli.run.plan import SPARSE_BUDGET, apply_splat_budget, default_steps, is_sparse_capture
from splat_cli.scene.colmap.model import SPHERE
from splat_cli.scene.coverage import Place
from splat_cli.scene.photograph import Pair, Photograph, find_pairs, measure
from splat_cli.scene.plausibility import are_panoramas, panoramas_or_fisheyes
from splat_cli.scene.sfm.colmap_database import LARGE
from splat_cli.scene.sfm.mapping import EXHAUSTIVE_LIMIT, num_camera_models
from splat_cli.scene.sfm.photographs import MIN_PHOTOGRAPHS
from splat_cli.scene.view import Scene, natural_order
from splat_cli.terminal.console import Counting, first_of

MANY_CAMERAS = 5
"""Camera models from which photographs are other people's: nobody can take them again."""
_BLURRED = 0.45  # sharpness relative to that of sharp photographs of the scene (75th percentile)
_ALL_SOFT = 0.04  # sharpness of these
_MAX_BLURRED, _MAX_DUPLICATES, _MAX_WEAK, _MAX_MOVING = 0.03, 0.2, 0.15, 0.25  # fractions without an alarm
_STOPS, _MAX_UNEVEN = 1.0, 0.1  # minimum difference of uneven exposures; maximum fraction of such pairs
_SAME_PICTURE, _SAME_PLACE = 2.0, 0.003  # of 255: difference of thumbnails; shift relative to the width
_MAX_STRAYS = 0.5  # fraction of weak photographs if they are other people's
_LINK = 12  # points that two photographs share, of small copies
_MIN_LINKS = 2
_SMALL_SECONDS, _LARGE_SECONDS, _LARGEST = 0.8, 0.3, 10.0  # of one core per megapixel: SIFT; megapixels that count
_PAIR_SECONDS, _PAIRS_IN_ORDER = 0.02, 15  # of one core: matches of about 3,300 features, as up to 2 megapixels have
_MAX_FEATURES = 2.5  # relative to them
_LEAST_MAPPED = 1.3  # with mapping, relative to features and matches


@dataclass(frozen=True)
class Finding:
    """The result of one check. ok: nothing to do; photographs: names of those concerned; is_known: whether it could
    be checked."""

    topic: str
    ok: bool
    text: str
    photographs: tuple[str, ...] = ()
    is_known: bool = True


@dataclass(frozen=True)
class Checked:
    """Results of `check`. scene: None without poses; places: where more photographs would help, best first.

    pairs: photographs that share points. poses_seconds: None if poses are known; training_seconds: None with a GPU,
    where training takes about a minute. num_cameras: camera models in their EXIF data.
    """

    source: Path
    photographs: list[Photograph]
    names: list[str]
    findings: list[Finding]
    scene: Scene | None
    places: list[Place]
    poses_seconds: float | None
    training_seconds: float | None
    pairs: list[tuple[int, int]] = field(default_factory=list)
    num_cameras: int = 0

    @property
    def problems(self) -> list[Finding]:
        """The findings that need something done."""
        return [one for one in self.findings if not one.ok]

    @property
    def duration(self) -> str:
        """Time to the trained scene on this machine, in words."""
        cores = f"{num_cores()} core{'s' * (num_cores() > 1)}"
        train = "about a minute on the GPU" if self.training_seconds is None else in_words(self.training_seconds)
        parts = [] if self.poses_seconds is None else [f"camera poses {in_words(self.poses_seconds)}"]
        return f"{', '.join([*parts, f'training {train}'])} (this machine has {cores})"

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        places = [
            {"center": place.center.tolist(), "direction": place.direction.tolist(), "between": place.between,
             "gain": place.gain}
            for place in self.places
        ]  # fmt: skip
        return {
            "source": self.source,
            "num_photographs": len(self.photographs),
            "num_problems": len(self.problems),
            "findings": [dataclasses.asdict(one) for one in self.findings],
            "places": places,
            "poses_seconds": self.poses_seconds,
            "training_seconds": self.training_seconds,
        }


def check_photographs(source: Path, paths: Sequence[Path], counting: Counting) -> Checked:
    """Check photographs without poses. SceneError if fewer than three can be decoded."""
    photographs = measured(source, sorted(paths, key=lambda path: natural_order(str(path))), counting)
    are_spheres = are_panoramas([one.path for one in photographs])
    pairs = find_pairs(photographs, are_spheres)
    root = Path(os.path.commonpath([path.parent for path in paths]))
    names = [one.path.relative_to(root).as_posix() for one in photographs]
    num_cameras = num_camera_models([one.path for one in photographs])
    findings = [
        *undecoded(photographs, paths),
        *look(photographs, pairs, names, num_cameras),
        links_of_photographs(names, pairs, num_cameras),
    ]
    if cause := panoramas_or_fisheyes([one.path for one in photographs], SPHERE if are_spheres else ""):
        findings.append(Finding("lens", False, f"the photographs {cause}"))
    pixels = float(np.mean([one.width * one.height for one in photographs]))
    seconds = _LEAST_MAPPED * _pose_seconds(len(photographs), pixels)
    linked = [(pair.first, pair.second) for pair in pairs if pair.num_shared >= _LINK]
    training = training_seconds(len(photographs), pixels)
    return Checked(source, photographs, names, findings, None, [], seconds, training, linked, num_cameras)


def measured(source: Path, paths: Sequence[Path], counting: Counting) -> list[Photograph]:
    with counting("photographs", len(paths)) as count:
        photographs = measure(paths, count)
    if len(photographs) < MIN_PHOTOGRAPHS:
        raise SceneError(f"{source} has {len(photographs)} photographs that can be decoded: at least 3 are needed")
    return photographs


def undecoded(photographs: Sequence[Photograph], paths: Iterable[Path]) -> list[Finding]:
    """Files that are missing or damaged."""
    found = {one.path for one in photographs}
    names = [path.name for path in paths if path not in found]
    text = f"{len(names)} cannot be read: {first_of(names)}; copy them again"
    return [Finding("files", False, text, tuple(names))] if names else []


def look(
    photographs: Sequence[Photograph], pairs: Sequence[Pair], names: Sequence[str], num_cameras: int = 1
) -> list[Finding]:
    """Blur, exposure, duplicates, moving things."""
    found = [_blur(photographs, names)]
    linked = [pair for pair in pairs if pair.num_shared >= _LINK]
    if linked:
        found += [_exposure(linked, names, num_cameras), _moving(linked, names)]
    return [*found, _duplicates(photographs, pairs, names)]


def _blur(photographs: Sequence[Photograph], names: Sequence[str]) -> Finding:
    values = np.array([one.sharpness for one in photographs])
    sharp = float(np.percentile(values, 75))
    if sharp < _ALL_SOFT:
        return Finding("blur", False, "all are blurred: hold the camera still, use more light, or downscale them")
    blurred = [name for name, value in zip(names, values, strict=True) if value < _BLURRED * sharp]
    if not blurred:
        return Finding("blur", True, "all are about equally sharp")
    ok = len(blurred) <= max(1, _MAX_BLURRED * len(names))
    advice = "" if ok else "; take them again, or leave them out"
    return Finding("blur", ok, f"{len(blurred)} of {len(names)} blurred: {first_of(blurred)}{advice}", tuple(blurred))


def _exposure(pairs: Sequence[Pair], names: Sequence[str], num_cameras: int) -> Finding:
    uneven = [pair for pair in pairs if abs(pair.stops) > _STOPS]
    if len(uneven) <= _MAX_UNEVEN * len(pairs):
        return Finding("exposure", True, "even")
    most = max(abs(pair.stops) for pair in uneven)
    if num_cameras >= MANY_CAMERAS:
        text = f"differs by up to {most:.1f} stops among {num_cameras} cameras: train with --preset phototourism"
        return Finding("exposure", True, text, _of_pairs(uneven, names))
    text = f"jumps by up to {most:.1f} stops: fix the exposure of the camera, or train with --appearance exposure"
    return Finding("exposure", False, text, _of_pairs(uneven, names))


def _moving(pairs: Sequence[Pair], names: Sequence[str]) -> Finding:
    moved = [pair for pair in pairs if pair.moved > _MAX_MOVING]
    if len(moved) <= _MAX_MOVING * len(pairs):
        return Finding("movement", True, "hardly anything moves")
    text = f"things move in {len(moved)} of {len(pairs)} pairs: mask them, or train with --robust"
    return Finding("movement", False, text, _of_pairs(moved, names))


def _duplicates(photographs: Sequence[Photograph], pairs: Sequence[Pair], names: Sequence[str]) -> Finding:
    near = pairs or [Pair(i, i + 1, 0, 0.0, 0.0, 0.0) for i in range(len(names) - 1)]
    same = [
        pair
        for pair in near
        if pair.shift < _SAME_PLACE
        and np.abs(photographs[pair.first].thumbnail - photographs[pair.second].thumbnail).mean() < _SAME_PICTURE
    ]
    second = sorted({names[pair.second] for pair in same})
    if not second:
        return Finding("duplicates", True, "none")
    ok = len(second) <= _MAX_DUPLICATES * len(names)
    text = f"{len(second)} of {len(names)} show what another shows: {first_of(second)}"
    return Finding("duplicates", ok, text + "; they only take time" * (not ok), tuple(second))


def _of_pairs(pairs: Iterable[Pair], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({names[number] for pair in pairs for number in (pair.first, pair.second)}))


def links_of_photographs(names: Sequence[str], pairs: Sequence[Pair], num_cameras: int) -> Finding:
    """Overlap by matches."""
    if not pairs:
        return Finding("overlap", True, "not measured: pip install -U 'splat-cli[sfm]'", is_known=False)
    linked = np.zeros((len(names), len(names)), bool)
    for pair in pairs:
        linked[pair.first, pair.second] = linked[pair.second, pair.first] = pair.num_shared >= _LINK
    return overlap(names, linked, num_cameras)


def overlap(names: Sequence[str], linked: np.ndarray, num_cameras: int = 1) -> Finding:
    """Photographs with too few others that show the same. linked: bool [N, N].

    Photographs of many cameras were collected, not taken for this: some of them are always strays.
    """
    np.fill_diagonal(linked, False)
    away = ~_largest_group(linked)
    few = linked.sum(axis=1) < _MIN_LINKS
    weak = [name for name, is_weak in zip(names, few | away, strict=True) if is_weak]
    if len(weak) <= _MAX_WEAK * len(names):
        some = f"; little in {first_of(weak)}" if weak else ""
        return Finding("overlap", True, f"enough{some}", tuple(weak))
    if num_cameras >= MANY_CAMERAS and len(weak) <= _MAX_STRAYS * len(names):
        text = (
            f"{len(weak)} of {len(names)}, by {num_cameras} cameras, have hardly any points in common with the others "
            f"and may get no pose: {first_of(weak)}"
        )
        return Finding("overlap", True, text, tuple(weak))
    text = (
        f"{len(weak)} of {len(names)} have hardly any points in common with the others: {first_of(weak)}; "
        "take more that overlap by two thirds"
    )
    return Finding("overlap", False, text, tuple(weak))


def _largest_group(linked: np.ndarray) -> np.ndarray:
    """Mask [N] of the photographs in the largest group that links connect."""
    largest, left = np.zeros(len(linked), bool), np.ones(len(linked), bool)
    while left.any():
        group = np.arange(len(linked)) == left.argmax()
        while (new := linked[group].any(axis=0) & ~group).any():
            group |= new
        left &= ~group
        largest = max(largest, group, key=np.sum)
    return largest


def _pose_seconds(num: int, pixels: float) -> float:
    """Features and matches on the cores of this machine."""
    pairs = num * (num - 1) // 2 if num <= EXHAUSTIVE_LIMIT else num * _PAIRS_IN_ORDER
    sift = (_LARGE_SECONDS if pixels >= LARGE else _SMALL_SECONDS) * min(pixels / 1e6, _LARGEST)
    features = min(max(pixels / 2e6, 1.0), _MAX_FEATURES)
    return (num * sift + pairs * _PAIR_SECONDS * features**2) / num_cores()


def training_seconds(num: int, pixels: float) -> float | None:
    if not why_no_cuda():
        return None
    is_sparse = is_sparse_capture(num, overlap=0)  # not known before poses are
    config = apply_splat_budget(TrainConfig(), num, int(num * pixels), SPARSE_BUDGET if is_sparse else None)
    return default_steps(num, is_sparse) * step_seconds(pixels, config.max_splats, num_cores())
