"""Checks camera paths of runs: nothing too near, a level horizon.

    python scripts/measure_paths.py runs/garden runs/house --paths auto,orbit,walk --sheets sheets

Two bars for each run and path, over all frames:

- matter: largest share of a frame's pixels with less than half the depth of the nearest photograph, under 1 %. The
  depth of a photograph is that which 1 % of its pixels fall short of, the nearest the 5th percentile of all.
- tilt: largest angle of a frame's horizontal axis against the level of the photographs, under 1 degree. Their level is
  the plane of their horizontal axes by a robust fit (Huber, 1 degree), independent of `up_direction`.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import numpy as np
from PIL import Image

from splat_cli.device import Backend, open_backend
from splat_cli.gaussians.splats import Splats
from splat_cli.render.frame import RenderOutput, render_frame
from splat_cli.render.pictures import to_8bit
from splat_cli.render.view import ViewRenderer
from splat_cli.run.storage.load_splats import load_trained_splats
from splat_cli.scene.trajectories.camera_path import CameraPath
from splat_cli.scene.view import View, evenly_spread
from splat_cli.tools.render import plan_job

MAX_NEAR, MAX_TILT = 0.01, 1.0
_NEAREST_VIEWS, _NEAREST_PIXELS = 5, 1  # percentiles
_MAX_VIEWS = 100
_ROUNDS = 50
_COLUMNS, _ROWS = 8, 5  # of a contact sheet


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--paths", default="auto,orbit,walk", show_default=True)
@click.option("--frames", type=int, help="Frames of each path.  [default: those of splat render]")
@click.option("--width", default=240, show_default=True, help="Of the frames, in pixels.")
@click.option("--sheets", type=click.Path(path_type=Path), help="Folder for contact sheets.")
@click.option("--device", default="auto", show_default=True)
def main(runs: tuple[Path, ...], paths: str, frames: int | None, width: int, sheets: Path | None, device: str) -> None:
    """Print a row for each run and path; exit code 1 if one misses a bar."""
    backend, missed = open_backend(device), 0
    print(f"{'run':16}{'path':10}{'frames':>6}{'matter, %':>11}{'at frame':>9}{'frames over':>12}{'tilt, deg':>11}")
    for run in runs:
        arrays, folder = load_trained_splats(run)
        if folder is None:
            raise click.UsageError(f"{run} is no run")
        splats, photographs = Splats.from_arrays(backend, arrays), folder.views("all")
        reference = [_narrowed(view, width) for view in evenly_spread(photographs, _MAX_VIEWS)]
        reached = [np.percentile(_depths(one), _NEAREST_PIXELS) for one in _rendered(backend, splats, reference)]
        nearest = float(np.percentile(reached, _NEAREST_VIEWS))
        level = level_of(photographs)
        for kind in paths.split(","):
            views = [_narrowed(view, width) for view in plan_job(run, path=CameraPath(kind, frames)).views]
            pictures, near = [], []
            for frame in _rendered(backend, splats, views):
                near.append(float(np.mean(_depths(frame) < nearest / 2)))
                pictures.append(to_8bit(frame.color))
            tilt = max(abs(_angle(view, level)) for view in views)
            over, worst = sum(share >= MAX_NEAR for share in near), int(np.argmax(near))
            missed += over > 0 or tilt >= MAX_TILT
            shown = f"{100 * near[worst]:11.2f}{worst:9}{over:12}{tilt:11.2f}"
            print(f"{run.name:16}{kind:10}{len(views):6}{shown}", flush=True)
            if sheets:
                _save_sheet(sheets / f"{run.name}-{kind}.jpg", pictures)
    raise SystemExit(missed > 0)


def level_of(views: Sequence[View]) -> np.ndarray:
    """Normal [3] of the plane of most horizontal axes, upwards; where they are parallel, near the mean up axis."""
    right = np.array([view.w2c[0, :3] for view in views])
    mean = -np.mean([view.w2c[1, :3] for view in views], axis=0)
    up = mean = mean / np.linalg.norm(mean)
    for _ in range(_ROUNDS):
        weights = 1 / np.maximum(np.abs(right @ up), np.sin(np.radians(1.0)))
        total = np.einsum("n,ni,nj->ij", weights / weights.sum(), right, right)
        up = np.linalg.eigh(total + 1e-6 * (np.eye(3) - np.outer(mean, mean)))[1][:, 0]
    return up * np.sign(up @ mean)


def _angle(view: View, level: np.ndarray) -> float:
    """Degrees of the horizontal axis above the level plane."""
    return float(np.degrees(np.arcsin(np.clip(view.w2c[0, :3] @ level, -1, 1))))


def _narrowed(view: View, width: int) -> View:
    """The view at `width` pixels."""
    scale = width / view.width
    height = max(1, round(view.height * scale))
    lens = {name: getattr(view, name) * scale for name in ("fx", "fy", "cx", "cy")}
    return dataclasses.replace(view, width=width, height=height, **lens)


def _rendered(backend: Backend, splats: Splats, views: Sequence[View]) -> Iterator[RenderOutput]:
    renderer = ViewRenderer(backend, splats, views, antialias=True)
    for index in range(len(views)):
        yield render_frame(renderer, index, maps=("alpha", "depth"))


def _depths(frame: RenderOutput) -> np.ndarray:
    """Depth of each pixel, infinite where less than half of what is behind is hidden."""
    assert frame.alpha is not None
    assert frame.depth is not None
    return np.where(frame.alpha > 0.5, frame.depth, np.inf)


def _save_sheet(path: Path, pictures: list[np.ndarray]) -> None:
    """Evenly spread frames, row by row."""
    shown = evenly_spread(pictures, _COLUMNS * _ROWS)
    height, width = shown[0].shape[:2]
    sheet = Image.new("RGB", (_COLUMNS * width, -(-len(shown) // _COLUMNS) * height))
    for number, picture in enumerate(shown):
        sheet.paste(Image.fromarray(picture), (number % _COLUMNS * width, number // _COLUMNS * height))
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path, quality=90)


if __name__ == "__main__":
    main()
