"""A scene in three copies: as photographed, with other held-out photographs, with one other training photograph."""

import dataclasses
from pathlib import Path

import numpy as np
from PIL import Image as Picture

from splat_cli.scene.colmap.binary import write_model
from splat_cli.scene.colmap.model import Camera, Image, Model
from splat_cli.scene.quaternion import quat_from_matrix
from splat_cli.scene.view import View
from tests.textured_ball import photograph, views_of_ball

NUM_VIEWS, TEST_EVERY = 12, 3
NAMES = [f"a_{number:02d}.jpg" for number in range(NUM_VIEWS)]
HELD_OUT = NAMES[::TEST_EVERY]


def write_scene(folder: Path, changed: list[str]) -> Path:
    """A textured ball before a plain sky, 80x60, with depth maps in `depths/`. Returns `folder`.

    changed: photographs with other pixels and depth maps. Cameras and points are the same in all scenes.
    """
    views = [_wide(view.resized(80, 60)) for view in views_of_ball(2 * NUM_VIEWS)[:NUM_VIEWS]]
    for part in ("images", "depths"):
        (folder / part).mkdir(parents=True)
    for name, view in zip(NAMES, views, strict=True):
        pixels, depths = photograph(view), np.full((60, 80), 2500, np.uint16)
        if name in changed:
            pixels, depths = 255 - pixels, depths + np.arange(80, dtype=np.uint16)
        Picture.fromarray(pixels).save(folder / "images" / name)
        Picture.fromarray(depths).save(folder / "depths" / f"{Path(name).stem}.png")
    camera = Camera(1, "PINHOLE", 80, 60, (views[0].fx, views[0].fy, views[0].cx, views[0].cy))
    images = [
        Image(number, 1, name, tuple(quat_from_matrix(view.w2c[:3, :3])), tuple(view.w2c[:3, 3]))
        for number, (name, view) in enumerate(zip(NAMES, views, strict=True), 1)
    ]
    points = np.random.default_rng(0).normal(size=(300, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    write_model(folder / "sparse" / "0", Model({1: camera}, images, points, np.full((300, 3), 90, np.uint8)))
    return folder


def _wide(view: View) -> View:
    """A shorter focal length, which shows the sky around the ball."""
    return dataclasses.replace(view, fx=0.6 * view.fx, fy=0.6 * view.fy)


@dataclasses.dataclass(frozen=True)
class Copies:
    """Folders of the scene: `original`, other `held_out` photographs, another `training` photograph."""

    original: Path
    held_out: Path
    training: Path

    @classmethod
    def write(cls, folder: Path, held_out: list[str], training: str = NAMES[1]) -> "Copies":
        """Write all three into `folder`."""
        changed: dict[str, list[str]] = {"original": [], "held_out": held_out, "training": [training]}
        return cls(**{name: write_scene(folder / name / "scene", names) for name, names in changed.items()})
