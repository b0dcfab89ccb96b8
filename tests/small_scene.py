"""A COLMAP scene that takes milliseconds to write: a ring of cameras around coloured points."""

import numpy as np
from PIL import Image as Picture

from splat_cli.scene.colmap.binary import write_model
from splat_cli.scene.colmap.model import Camera, Image, Model
from splat_cli.scene.quaternion import quat_from_matrix
from tests.views import ring_of_views

_PARAMETERS = {
    "PINHOLE": (35.0, 36.0, 21.0, 13.0),
    "SIMPLE_RADIAL": (35.0, 21.0, 13.0, 0.1),
    "EQUIRECTANGULAR": (40.0, 30.0),
}


def write_small_scene(folder, num_views=9, num_points=300, camera_model="PINHOLE", parameters=None):
    """Photographs a_00.jpg, ... (a colour gradient, 40x30) and points in a ball of radius 1. Returns `folder`."""
    views = ring_of_views(num_views)
    (folder / "images").mkdir(parents=True)
    for number, view in enumerate(views):
        _photograph(number, view.width, view.height).save(folder / "images" / view.name)
    camera = Camera(1, camera_model, views[0].width, views[0].height, parameters or _PARAMETERS[camera_model])
    images = [
        Image(number, 1, view.name, tuple(quat_from_matrix(view.w2c[:3, :3])), tuple(view.w2c[:3, 3]))
        for number, view in enumerate(views, 1)
    ]
    rng = np.random.default_rng(0)
    points = rng.normal(size=(num_points, 3))
    points *= rng.random((num_points, 1)) / np.linalg.norm(points, axis=1, keepdims=True)
    colors = rng.integers(0, 256, (num_points, 3), dtype=np.uint8)
    write_model(folder / "sparse" / "0", Model({1: camera}, images, points, colors))
    return folder


def _photograph(number, width, height):
    row, column = np.mgrid[:height, :width]
    return Picture.fromarray(np.stack([6 * column, 8 * row, 20 * number + 0 * row], axis=-1).astype(np.uint8))
