"""The sample scenes: a ray-traced room, and a city of any size."""

from pathlib import Path

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.sample.city import CityMap
from splat_cli.sample.light import bake, radiance
from splat_cli.sample.photographs import CAMERAS, hand_motion, pinhole, require_size, write_photographs
from splat_cli.sample.room import camera_poses, make_room
from splat_cli.sample.surfaces import HALF

NUM_POINTS = 5000
POINTS_PER_BLOCK = 1500


def make_sample_scene(
    folder: str | Path,
    num_views: int = 48,
    width: int = 192,
    height: int = 144,
    seed: int = 0,
    depths: bool = False,
    camera: str = "pinhole",
) -> Path:
    """Write a room as `images/` and `sparse/0/` into `folder` and return it.

    seed: of camera shake and points; the room is fixed. depths: also write exact depth maps, see write_photographs.
    camera: pinhole, fisheye (200 degrees across the width) or sphere (360 by 180 degrees), with masks of the pixels
    that the lens does not see; or moving, a pinhole camera in a hand with a rolling shutter, whose poses at the top and
    bottom edges are in transforms.json. SceneError if the folder cannot be written, sizes are zero or the camera is
    unknown.
    """
    folder = Path(folder)
    require_size(num_views, width, height)
    if camera not in CAMERAS:
        raise SceneError(f"the sample scene has no camera {camera!r}: give one of {', '.join(CAMERAS)}")
    rng = np.random.default_rng(seed)
    poses = camera_poses(num_views, rng, level=camera == "sphere")
    shapes = make_room()
    light = bake(shapes)
    bounds = np.array([[-HALF[0], -HALF[1], 0], [HALF[0], HALF[1], 2 * HALF[2]]])
    write_photographs(
        folder,
        lambda center, rays: radiance(shapes, light, center, rays),
        poses,
        CAMERAS[camera](width, height),
        bounds,
        NUM_POINTS,
        rng,
        depths,
        hand_motion(num_views, np.random.default_rng(seed + 1)) if camera == "moving" else (),
    )
    return folder


def make_sample_city(
    folder: str | Path,
    blocks: tuple[int, int] = (2, 2),
    num_views: int | None = None,
    width: int = 192,
    height: int = 144,
    seed: int = 0,
) -> Path:
    """Write a city, photographed by a drone, as `images/` and `sparse/0/` into `folder` and return it.

    blocks: numbers of blocks of 24 m along x and y. num_views: default 12 per block and 12 more for each side. seed:
    of buildings, cameras and points. SceneError if the folder cannot be written or sizes are zero.
    """
    folder, columns, rows = Path(folder), *blocks
    if num_views is None:
        num_views = 12 * (columns + 1) * (rows + 1)
    require_size(min(num_views, columns, rows), width, height)
    rng = np.random.default_rng(seed)
    city = CityMap(columns, rows, rng)
    poses = city.camera_poses(num_views, rng)
    write_photographs(
        folder,
        city.trace,
        poses,
        pinhole(width, height),
        city.bounds,
        POINTS_PER_BLOCK * (columns + 1) * (rows + 1),
        rng,
    )
    return folder
