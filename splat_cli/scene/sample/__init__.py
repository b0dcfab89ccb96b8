"""The sample scene: a ray-traced room, written as if it had been photographed and reconstructed."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image as Picture

from splat_cli.errors import SceneError
from splat_cli.scene.colmap.model import Camera, Image, Model
from splat_cli.scene.colmap.write import write_model
from splat_cli.scene.quaternion import quat_from_matrix
from splat_cli.scene.sample.light import LightMaps, bake
from splat_cli.scene.sample.path import camera_poses
from splat_cli.scene.sample.room import make_room
from splat_cli.scene.sample.shapes import Shape
from splat_cli.scene.sample.surfaces import HALF
from splat_cli.scene.sample.trace import radiance

FOCAL = 0.86
"""Focal length over the image's width: a phone's wide camera."""
NUM_POINTS = 5000
NOISE = 0.01
"""Standard deviation of a point's error along each axis, over its distance from the camera."""
OUTLIERS = 0.02
"""Share of the points that lie anywhere in the room."""
EXPOSURE = 1.5
UPRIGHT = np.array([[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1.0]])
"""From the room's axes (z up) to the scene's (y down), as viewers expect."""


def make_sample_scene(
    folder: str | Path, num_views: int = 48, width: int = 192, height: int = 144, seed: int = 0
) -> Path:
    """Write `images/` and `sparse/0/` into `folder` and return it.

    seed: of camera shake and points; the room is fixed. SceneError if the folder cannot be written or sizes are zero.
    """
    folder = Path(folder)
    if min(num_views, width, height) < 1:
        raise SceneError(f"{num_views} views of {width}x{height} were asked for; give at least 1 view of 1x1")
    rng = np.random.default_rng(seed)
    poses = camera_poses(num_views, rng)
    names = [f"view_{i:03d}.jpg" for i in range(num_views)]
    try:
        (folder / "images").mkdir(parents=True, exist_ok=True)  # before long work
        frames = _photographs(poses, width, height)
        for name, (picture, _) in zip(names, frames, strict=True):
            Picture.fromarray(picture).save(folder / "images" / name, quality=95, subsampling=0)
        write_model(folder / "sparse" / "0", _model(names, poses, frames, width, height, rng))
    except OSError as error:
        raise SceneError(f"{folder} cannot be written: {error.strerror or error}; choose another place") from error
    return folder


def _photographs(poses: np.ndarray, width: int, height: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """`_photograph` of every pose, on all cores."""
    shapes = make_room()
    light = bake(shapes)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda pose: _photograph(shapes, light, pose, width, height), poses))


def _photograph(
    shapes: list[Shape], light: LightMaps, pose: np.ndarray, width: int, height: int
) -> tuple[np.ndarray, np.ndarray]:
    """The picture, uint8 [height, width, 3], and the surface point of each pixel, float32 [height, width, 3]."""
    x = (np.arange(2 * width) + 0.5) / 2 - width / 2
    y = (np.arange(2 * height) + 0.5) / 2 - height / 2
    u, v = (grid.ravel() for grid in np.meshgrid(x, y))
    rays = pose[:3, :3].T @ np.stack([u, v, np.full_like(u, FOCAL * width)])
    rays = (rays / np.linalg.norm(rays, axis=0)).astype(np.float32)
    center = (-pose[:3, :3].T @ pose[:3, 3:]).astype(np.float32)
    colors, points = radiance(shapes, light, center, rays)
    shown = (1 - np.exp(-EXPOSURE * colors)) ** (1 / 2.2)
    shown = shown.reshape(3, height, 2, width, 2).mean(axis=(2, 4)).transpose(1, 2, 0)
    seen = points.reshape(3, height, 2, width, 2)[:, :, 0, :, 0].transpose(1, 2, 0)
    return (shown * 255 + 0.5).astype(np.uint8), seen


def _model(
    names: list[str],
    poses: np.ndarray,
    frames: list[tuple[np.ndarray, np.ndarray]],
    width: int,
    height: int,
    rng: np.random.Generator,
) -> Model:
    """A COLMAP model: one camera, the poses, and noisy surface points."""
    camera = Camera(1, "PINHOLE", width, height, (FOCAL * width, FOCAL * width, width / 2, height / 2))
    images = []
    for number, (name, pose) in enumerate(zip(names, poses @ np.linalg.inv(UPRIGHT), strict=True), 1):
        quat = tuple(quat_from_matrix(pose[:3, :3]).tolist())
        images.append(Image(number, camera.id, name, quat, tuple(pose[:3, 3].tolist())))
    view = rng.integers(len(frames), size=NUM_POINTS)
    row, column = rng.integers(height, size=NUM_POINTS), rng.integers(width, size=NUM_POINTS)
    pictures, seen = (np.stack(arrays) for arrays in zip(*frames, strict=True))
    points, colors = seen[view, row, column].astype(np.float64), pictures[view, row, column]
    centers = -(poses[:, :3, :3].transpose(0, 2, 1) @ poses[:, :3, 3:])[view, :, 0]
    depth = np.linalg.norm(points - centers, axis=1, keepdims=True)
    points += NOISE * depth * rng.normal(size=points.shape)
    astray = rng.random(NUM_POINTS) < OUTLIERS
    points[astray] = rng.uniform(-1, 1, (int(astray.sum()), 3)) * HALF + [0, 0, HALF[2]]
    return Model({camera.id: camera}, images, points @ UPRIGHT[:3, :3].T, colors)
