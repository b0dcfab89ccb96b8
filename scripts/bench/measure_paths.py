"""Checks camera paths of runs: no splats too near, a level horizon, the subject within the frames.

    python scripts/bench/measure_paths.py runs/garden runs/house --paths auto,orbit,walk --sheets sheets

Three limits for each run and path, over all frames:

- matter: maximum share of a frame's pixels that are half hidden by splats nearer than half the depth of the nearest
  photograph, under 1 %. The depth of splats is their sort key in novel views (`sort_outside_by_distance`). The depth of
  a photograph is the 1st percentile over its pixels, and the nearest is the 5th percentile over photographs.
- tilt: maximum angle between a frame's horizontal axis and the level of the photographs: at most 1 degree, or as much
  as the level varies between halves of the photographs. The level is the plane of their horizontal axes by a robust fit
  (L1 from 1 degree on), independent of `up_direction`.
- cut: maximum share of the subject outside a frame, under 2 %. The subject is the opaque splats whose centre is in at
  least 90 % of the photographs.

A flash is a frame that differs from both neighbours: maximum over frames of the mean difference from their mean, in
8-bit levels.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import numpy as np
from PIL import Image

from splat_cli.commands.render import plan_job
from splat_cli.device import Backend, ceil_div, open_backend
from splat_cli.gaussians.arrays import SplatArrays, opacities
from splat_cli.gaussians.splats import Splats
from splat_cli.render.images import to_8bit
from splat_cli.render.rendered_maps import RenderedMaps, render_maps
from splat_cli.render.view import ViewRenderer, depth_factors
from splat_cli.run.storage.load_run import load_trained_splats
from splat_cli.scene.trajectories.camera_path import CameraPath, shares_seen
from splat_cli.scene.view import View, evenly_spread

MAX_NEAR, MAX_TILT, MAX_CUT = 0.01, 1.0, 0.02
_SUBJECT = 0.9
_NEAREST_VIEWS, _NEAREST_PIXELS = 5, 1  # percentiles
_MAX_VIEWS = 100
_ROUNDS = 1000  # enough for the scene fox
_HALVES = 20
_COLUMNS, _ROWS = 8, 5  # frames of a contact sheet


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--paths", default="auto,orbit,walk", show_default=True)
@click.option("--frames", type=int, help="Frames of each path.  [default: those of splat render]")
@click.option("--width", default=240, show_default=True, help="Width of the frames, in pixels.")
@click.option("--sheets", type=click.Path(path_type=Path), help="Folder for contact sheets.")
@click.option("--device", default="auto", show_default=True)
def main(runs: tuple[Path, ...], paths: str, frames: int | None, width: int, sheets: Path | None, device: str) -> None:
    """Print a row for each run and path; exit code 1 if one exceeds a limit."""
    backend, missed = open_backend(device), 0
    print("run             path      frames  matter, %  at frame  frames over  tilt, deg   +-  cut, %  flash  at frame")
    for run in runs:
        arrays, folder = load_trained_splats(run)
        if folder is None:
            raise click.UsageError(f"{run} is not a run")
        splats, photographs = Splats.from_arrays(backend, arrays), folder.views("all")
        reference = [_narrowed(view, width) for view in evenly_spread(photographs, _MAX_VIEWS)]
        reached = [np.percentile(_depths(one), _NEAREST_PIXELS) for one in _rendered(backend, splats, reference)]
        nearest = float(np.percentile(reached, _NEAREST_VIEWS))
        subject = _subject(arrays, photographs)
        level, halves = level_of(photographs), _levels_of_halves(photographs)
        for kind in paths.split(","):
            views = [_narrowed(view, width) for view in plan_job(run, path=CameraPath(kind, frames)).views]
            pictures = [to_8bit(frame.color) for frame in _rendered(backend, splats, views, novel_views=True)]
            near = [_covered(backend, arrays, view, nearest / 2) for view in views]
            tilt = _tilt(views, level)
            uncertain = float(np.percentile([_tilt(views, *pair) for pair in halves], 95)) / 2
            over, worst = sum(share >= MAX_NEAR for share in near), int(np.argmax(near))
            flash, at = _flash(pictures)
            cut = max(1 - float(view.project(subject)[2].mean()) for view in views) if len(subject) else 0.0
            missed += over > 0 or tilt >= max(MAX_TILT, uncertain) or cut >= MAX_CUT
            print(
                f"{run.name:16}{kind:10}{len(views):6}{100 * near[worst]:11.2f}{worst:10}{over:13}{tilt:11.2f}"
                f"{uncertain:5.1f}{100 * cut:8.1f}{flash:7.1f}{at:10}",
                flush=True,
            )
            if sheets:
                _save_sheet(sheets / f"{run.name}-{kind}.png", pictures)
    raise SystemExit(missed > 0)


def level_of(views: Sequence[View]) -> np.ndarray:
    """Normal [3] of the plane of most horizontal axes, upwards; if they are parallel, near the mean up axis."""
    right = np.array([view.w2c[0, :3] for view in views])
    mean = -np.mean([view.w2c[1, :3] for view in views], axis=0)
    up = mean = mean / np.linalg.norm(mean)
    for _ in range(_ROUNDS):
        weights = 1 / np.maximum(np.abs(right @ up), np.sin(np.radians(1.0)))
        total = np.einsum("n,ni,nj->ij", weights / weights.sum(), right, right)
        up = np.linalg.eigh(total + 1e-6 * (np.eye(3) - np.outer(mean, mean)))[1][:, 0]
    return up * np.sign(up @ mean)


def _levels_of_halves(views: Sequence[View]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Levels of random halves of the photographs."""
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(views)) for _ in range(_HALVES)]
    halves = [[[views[i] for i in half] for half in np.array_split(order, 2)] for order in orders]
    return [(level_of(first), level_of(second)) for first, second in halves]


def _subject(arrays: SplatArrays, photographs: Sequence[View]) -> np.ndarray:
    """Centres [P, 3] of the opaque splats that most photographs show."""
    means = arrays.means[opacities(arrays) > 0.5]
    return means[shares_seen(photographs, means) >= _SUBJECT]


def _covered(backend: Backend, arrays: SplatArrays, view: View, depth: float) -> float:
    """Share of the pixels that splats nearer than `depth` hide by at least half."""
    positions = arrays.means @ view.w2c[:3, :3].T + view.w2c[:3, 3]
    ahead = np.flatnonzero(positions[:, 2] > 0)
    x, y, z = positions[ahead].T
    pixels = np.stack([view.fx * x / z + view.cx, view.fy * y / z + view.cy], axis=1)
    near = arrays.select(ahead[z * depth_factors(np, pixels, view) < depth])
    if len(near) == 0:
        return 0.0
    (frame,) = _rendered(backend, Splats.from_arrays(backend, near), [view], novel_views=True)
    assert frame.alpha is not None
    return float(np.mean(frame.alpha > 0.5))


def _flash(pictures: list[np.ndarray]) -> tuple[float, int]:
    """Maximum difference of a frame from the mean of its neighbours, in 8-bit levels, and the frame's number."""
    frames = np.stack(pictures).astype(np.float32)
    middle = (frames[2:] + frames[:-2]) / 2
    differences = np.abs(frames[1:-1] - middle).mean(axis=(1, 2, 3))
    return float(differences.max()), int(differences.argmax()) + 1


def _tilt(views: Sequence[View], level: np.ndarray, other: np.ndarray | None = None) -> float:
    """Maximum angle of a horizontal axis to a level, or its difference from the angle to another level, in degrees."""
    right = np.array([view.w2c[0, :3] for view in views])
    angles = np.degrees(np.arcsin(np.clip(right @ level, -1, 1)))
    if other is not None:
        angles -= np.degrees(np.arcsin(np.clip(right @ other, -1, 1)))
    return float(np.abs(angles).max())


def _narrowed(view: View, width: int) -> View:
    """The view at `width` pixels."""
    scale = width / view.width
    height = max(1, round(view.height * scale))
    lens = {name: getattr(view, name) * scale for name in ("fx", "fy", "cx", "cy")}
    return dataclasses.replace(view, width=width, height=height, **lens)


def _rendered(
    backend: Backend, splats: Splats, views: Sequence[View], novel_views: bool = False
) -> Iterator[RenderedMaps]:
    renderer = ViewRenderer(backend, splats, views, antialias=True, novel_views=novel_views)
    for index in range(len(views)):
        yield render_maps(renderer, index, maps=("alpha", "depth"))


def _depths(frame: RenderedMaps) -> np.ndarray:
    """Depth of each pixel, infinite if splats hide less than half of the background."""
    assert frame.alpha is not None
    assert frame.depth is not None
    return np.where(frame.alpha > 0.5, frame.depth, np.inf)


def _save_sheet(path: Path, pictures: list[np.ndarray]) -> None:
    """Evenly spread frames, row by row."""
    shown = evenly_spread(pictures, _COLUMNS * _ROWS)
    height, width = shown[0].shape[:2]
    sheet = Image.new("RGB", (_COLUMNS * width, ceil_div(len(shown), _COLUMNS) * height))
    for number, picture in enumerate(shown):
        sheet.paste(Image.fromarray(picture), (number % _COLUMNS * width, number // _COLUMNS * height))
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)


if __name__ == "__main__":
    main()
