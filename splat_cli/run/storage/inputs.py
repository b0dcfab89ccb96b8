"""Cameras and files that a run is trained on: recorded in inputs.json when it begins, compared when it is resumed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.errors import UsageError
from splat_cli.io.files import UNREADABLE, fingerprint
from splat_cli.run.storage.find_run import run_around
from splat_cli.run.storage.records import INTRINSICS, Inputs
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.view import View
from splat_cli.terminal.console import first_of

_VIEW_OPTIONS = ("images", "max_size", "downscale", "masks", "depths")
"""Settings that change sizes or files of views."""
_TOLERANCE = 1e-5
"""For rotations, positions relative to the cameras' extent, and intrinsics, because some formats round numbers."""
_SAME_PLACE = 2e-3
"""The same for poses that `splat sfm` finds: up to 1.6e-3 for one photograph in two sizes or encodings. Photographs of
ten real scenes differ by 1.4e-2 or more.
"""


def inputs_of(views: Sequence[View]) -> Inputs:
    """The inputs of the views as they are now."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        files = list(pool.map(_fingerprints, views))
    return {
        view.name: {**_camera(view), "lens": _lens(view), "camera": view.camera_id, "files": found}
        for view, found in zip(views, files, strict=True)
    }


def summary_of(points: np.ndarray) -> list[float]:
    """Number of points [P, 3], their mean, and the root mean square of their distances from it; the same in any format.

    They determine default settings and, with --free-space and --depth-weight, losses.
    """
    if not len(points):
        return [0.0] * 5
    mean = points.mean(axis=0, dtype=np.float64)
    return [len(points), *mean.tolist(), float(np.sqrt(np.square(points - mean).sum(axis=1).mean()))]


def refuse_other_inputs(run: RunDir, now: Inputs, points: Sequence[float], scene: Path, config: TrainConfig) -> None:
    """Raise a UsageError that names the changes if the run was trained on another scene.

    points: their summary now. config: settings from now on; if they change how views or points are read, these may
    differ. Runs of earlier versions have no inputs.json: their cameras are in cameras.json, unless refined, and their
    files and points are unknown.
    """
    has_refined, earlier = config.pose_opt, run.config()
    before = run.inputs() or {view.name: {} if has_refined else _camera(view) for view in run.views("all")}
    changes = [f"{name} is missing" for name in before if name not in now]
    changes += [f"{name} is new" for name in now if name not in before]
    same_options = all(getattr(earlier, option) == getattr(config, option) for option in _VIEW_OPTIONS)
    changes += _changed_views(before, now, same_options)
    if config.appearance == "camera" or (config.pose_opt and config.refine_intrinsics):  # trained for each number
        numbers = {name: entry.get("camera") for name, entry in before.items()}
        others = [name for name in numbers.keys() & now.keys() if numbers[name] not in (None, now[name]["camera"])]
        changes += [f"{name} has another camera number" for name in others]
    if earlier.crop == config.crop and _are_other_points(run.input_points(), points):
        changes.append("other points")
    if changes:
        raise UsageError(
            f"{scene} is not what {run.path} was trained on ({first_of(sorted(changes))}): restore it, or start a new "
            "run, from saved splats with --init-from"
        )


def _are_other_points(before: Sequence[float], now: Sequence[float]) -> bool:
    """Whether two summaries differ by more than rounding; False if there was none."""
    return bool(before) and bool(np.abs(np.subtract(before, now)).max() > _TOLERANCE * before[-1])


def changed_inputs(run: RunDir, views: Sequence[View]) -> list[str]:
    """Changes of these views of the run's scene since training, such as "a.jpg has another mask".

    Depth maps do not count: they are read in training only. Empty for runs of earlier versions.
    """
    before = run.inputs()
    now = inputs_of([dataclasses.replace(view, depth=None) for view in views if view.name in before])
    for entry in before.values():
        entry.get("files", {}).pop("depth map", None)
    return sorted(_changed_views(before, now, same_options=True))


def warning_of_copies(held_out: Sequence[View], inputs: Inputs) -> str | None:
    """A warning if training has held-out photographs under another name, or None. inputs: of all views."""
    names = {view.name for view in held_out}
    trained = {name: entry for name, entry in inputs.items() if name not in names}
    found = _copies({name: inputs[name] for name in sorted(names)}, trained, _SAME_PLACE)
    if not found:
        return None
    return (
        f"{len(found):,} held-out photographs are trained on under other names or at the same pose "
        f"({first_of([f'{name} is {copy}' for name, copy in found.items()])}): their scores are too good; remove the "
        "copies from the scene"
    )


def refuse_seen(held_out: Sequence[View], config: TrainConfig) -> str | None:
    """UsageError if splats that training starts from are known to be trained on held-out photographs.

    A photograph is the same if its file or its pose is, under any name: copies of another size or format keep the pose.
    Returns a warning on splats of unknown origin, or None.
    """
    sources = {"--init-from": config.init_from, "--frozen": config.frozen}
    if not held_out or not any(sources.values()):
        return None  # most runs; their photographs are not read here
    now, unknown = inputs_of(held_out), []
    for option, name in sources.items():
        runs, others = _origins(name) if name else ([], [])
        unknown += others
        for run in runs:
            if seen := _seen(run, now):
                raise UsageError(
                    f"the splats of {option} were trained on {len(seen):,} of {len(now):,} held-out photographs "
                    f"({first_of(seen)}): hold out those that {run.path} held out, or leave out --eval"
                )
    if not unknown:
        return None
    return (
        f"{unknown[0]} is not in the folder of a run, which would list its photographs: if its splats were trained on "
        "held-out ones, their scores are too good"
    )


def seen_photographs(file: Path, views: Sequence[View]) -> list[str]:
    """Names of the views whose photographs the splats in a file are known to be trained on."""
    runs, _ = _origins(str(file))
    now = inputs_of(views) if runs else {}  # which reads all photographs
    return sorted({name for run in runs for name in _seen(run, now)})


def _origins(name: str) -> tuple[list[RunDir], list[str]]:
    """The run that contains a file of splats, the runs that it started from, and files on the way outside of runs."""
    runs: list[RunDir] = []
    others, names = [], [name]
    while names:
        path = run_around(Path(file := names.pop()))
        if path is None:
            others.append(file)
        elif (run := RunDir(path)) not in runs:
            runs.append(run)
            names += filter(None, (run.config().init_from, run.config().frozen))
    return runs, others


def _seen(run: RunDir, now: Inputs) -> list[str]:
    """Names of the photographs in `now` that the run was trained on."""
    trained = {view.name for view in run.views("train")}
    return list(_copies(now, {name: one for name, one in run.inputs().items() if name in trained}, _TOLERANCE))


def _copies(held_out: Inputs, trained: Inputs, tolerance: float) -> dict[str, str]:
    """Held-out photograph -> the trained one with the same file or, within `tolerance`, the same pose."""
    if not trained:
        return {}
    names, files = list(trained), {entry["files"].get("photograph"): name for name, entry in trained.items()}
    poses, limit = np.array([trained[name]["w2c"] for name in names]), tolerance * _extent({**trained, **held_out})
    centers, found = np.array([_center(entry) for entry in trained.values()]), {}
    for name, entry in held_out.items():
        turned = np.abs(poses - entry["w2c"]).reshape(-1, 3, 4)[..., :3].max((1, 2))
        moved = np.linalg.norm(centers - _center(entry), axis=1)
        same = np.flatnonzero((turned <= tolerance) & (moved <= limit))
        if (file := entry["files"].get("photograph")) in files.keys() - {None, UNREADABLE}:
            found[name] = files[file]
        elif len(same):
            found[name] = names[same[moved[same].argmin()]]
    return found


def _changed_views(before: Inputs, now: Inputs, same_options: bool) -> list[str]:
    """Changes of the views that are in both, such as "a.jpg has another photograph"."""
    limit, changes = _TOLERANCE * _extent(now), []
    for name in before.keys() & now.keys():
        if changed := _changed_parts(before[name], now[name], limit, same_options):
            changes.append(f"{name} has {' and '.join(changed)}")
    return changes


def _camera(view: View) -> dict[str, Any]:
    numbers = {name: getattr(view, name) for name in INTRINSICS}
    return {**numbers, "w2c": view.w2c[:3].ravel().tolist()}


def _lens(view: View) -> list[float]:
    """Family and coefficients of the distortion, kept or undone, and motion of a rolling shutter; may be empty."""
    distortion, shutter = view.distortion or (view.lens and view.lens.distortion), view.rolling_shutter
    return [
        *([distortion.family, *distortion.coefficients()] if distortion else ()),
        *([*shutter.rotation, *shutter.shift] if shutter else ()),
    ]


def _fingerprints(view: View) -> dict[str, str]:
    files = {"photograph": view.path, "mask": view.mask, "depth map": view.depth.path if view.depth else None}
    found = {kind: fingerprint(path) for kind, path in files.items() if path is not None}
    if view.depth:
        confidence = view.depth.confidence and fingerprint(view.depth.confidence)
        parts = [found["depth map"], confidence, view.depth.inverse, view.depth.unit]
        found["depth map"] = "-".join(str(part) for part in parts if part is not None)
    return found


def _extent(inputs: Inputs) -> float:
    """Largest distance of a camera from the mean, world units; at least 1e-3 of the largest from the origin."""
    if not inputs:
        return 0.0
    centers = np.array([_center(entry) for entry in inputs.values()])
    spread = np.linalg.norm(centers - centers.mean(axis=0), axis=1)
    return float(max(spread.max(), 1e-3 * np.abs(centers).max()))


def _center(entry: dict[str, Any]) -> np.ndarray:
    w2c = np.reshape(entry["w2c"], (3, 4))
    return -w2c[:, :3].T @ w2c[:, 3]


def _changed_parts(before: dict[str, Any], now: dict[str, Any], limit: float, same_options: bool) -> list[str]:
    """Differences between the recorded inputs of a view and its inputs now. limit: for positions, world units."""
    parts = []
    if "w2c" in before and _is_moved(before, now, limit):
        parts.append("another pose")
    lenses = before.get("lens", now.get("lens", ())), now.get("lens", ())
    if len(lenses[0]) != len(lenses[1]) or not np.allclose(*lenses, rtol=0, atol=_TOLERANCE):
        parts.append("another lens")
    if not same_options:
        return parts
    intrinsics = [(before[name], now[name]) for name in INTRINSICS if name in before]
    if any(abs(one - other) > _TOLERANCE * max(abs(one), 1.0) for one, other in intrinsics):
        parts.append("another size or focal length")
    files, others = before.get("files", now["files"]), now["files"]
    for kind in {**files, **others}:
        if files.get(kind) != UNREADABLE and not _is_same(files.get(kind), others.get(kind), "lens" in before):
            parts.append(f"{'an unreadable' if others.get(kind) == UNREADABLE else 'another'} {kind}")
    return parts


def _is_moved(before: dict[str, Any], now: dict[str, Any], limit: float) -> bool:
    """Whether two inputs of a view have other poses. limit: for positions, world units."""
    turned = np.abs(np.reshape(before["w2c"], (3, 4)) - np.reshape(now["w2c"], (3, 4)))[:, :3].max()
    return bool(turned > _TOLERANCE or np.linalg.norm(_center(before) - _center(now)) > limit)


def _is_same(before: str | None, now: str | None, is_whole: bool) -> bool:
    """Whether two fingerprints are equal. is_whole: False if the first comes from a version that hashed less."""
    return before == now or (not is_whole and None not in (before, now) and f"{now}".startswith(f"{before}-"))
