"""Measures which part of a scene's subject the frames of camera paths cut off. Needs no training.

    python scripts/bench/measure_subject.py scenes/garden scenes/house --paths auto,spiral

The subject is the points of the scene that at least 50, 80 or 90 % of the photographs have in their picture. A column
shows the maximum share of it outside a frame, with the field of view of the first photograph and with that of
`splat render`. The paths keep clear of the points, instead of dense splats.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from splat_cli.cli.param_types import Size
from splat_cli.device import ceil_div
from splat_cli.scene.read import read_scene
from splat_cli.scene.trajectories.camera_path import CameraPath, shares_seen, with_size
from splat_cli.scene.view import View

_SHARES = (0.5, 0.8, 0.9)
_MIN_POINTS, _MAX_POINTS = 30, 8000


@click.command()
@click.argument("scenes", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--paths", default="auto", show_default=True)
@click.option("--frames", default=60, show_default=True)
@click.option("--size", type=Size(), help="Size of the frames, in pixels.  [default: that of the first photograph]")
def main(scenes: tuple[Path, ...], paths: str, frames: int, size: tuple[int, int] | None) -> None:
    """Print a row for each scene and path."""
    print("scene           path      zoom" + "".join(f"   seen by {share:.0%}" for share in _SHARES))
    for folder in scenes:
        scene = read_scene(folder)
        points = scene.points[:: ceil_div(len(scene.points), _MAX_POINTS) or 1].astype(np.float64)
        seen = shares_seen(scene.views, points)
        for kind in paths.split(","):
            path, _ = CameraPath(kind, frames, size=size).through(scene.views, scene.points)
            first = with_size(scene.views[0], *size) if size else scene.views[0]
            plain = [dataclasses.replace(view, fx=first.fx, fy=first.fy) for view in path]
            subjects = [points[seen >= share] for share in _SHARES]
            cells = [
                f"{_cut(plain, subject):5.1f} ->{_cut(path, subject):5.1f} %" if len(subject) >= _MIN_POINTS else "-"
                for subject in subjects
            ]
            print(
                f"{folder.name:16}{kind:8}{path[0].fx / first.fx:6.2f}" + "".join(f"{c:>17}" for c in cells), flush=True
            )


def _cut(path: Sequence[View], subject: np.ndarray) -> float:
    """Maximum percentage of the subject outside a frame."""
    return 100 * max(1 - float(view.project(subject)[2].mean()) for view in path)


if __name__ == "__main__":
    main()
