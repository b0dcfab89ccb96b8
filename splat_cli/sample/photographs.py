"""Ray-traced photographs, written as if they had been taken and reconstructed by COLMAP."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image as Picture

from splat_cli.errors import SceneError
from splat_cli.io.files import write_error
from splat_cli.scene.colmap.model import Camera, Image, Model
from splat_cli.scene.colmap.write import write_model
from splat_cli.scene.quaternion import quat_from_matrix

FOCAL = 0.86
"""Focal length over the image's width: a phone's wide camera."""
NOISE = 0.01
"""Standard deviation of a point's error along each axis, over its distance from the camera."""
OUTLIERS = 0.02
"""Fraction of outliers among the points, uniform in the scene."""
EXPOSURE = 1.5
DEPTH_LEVELS = 1000
"""Levels of depth maps per world unit, the default of --depth-unit."""
UPRIGHT = np.array([[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1.0]])
"""Rotation from axes with z up to the scene's axes (y down), as viewers expect."""

Trace = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""(origin float32 [3, 1], directions of length 1 float32 [3, n]) -> linear colours [3, n], points met [3, n]."""


def write_photographs(
    folder: Path,
    trace: Trace,
    poses: np.ndarray,
    width: int,
    height: int,
    bounds: np.ndarray,
    num_points: int,
    rng: np.random.Generator,
    depths: bool = False,
) -> None:
    """Write `images/` and `sparse/0/` into `folder`. DiskError if it cannot be written.

    poses: float64 [V, 4, 4], world to camera; the world's z points up. bounds: [2, 3], of outlier points.
    depths: also write exact depth maps, `depths/`, 16-bit PNG with DEPTH_LEVELS per world unit.
    """
    names = [f"view_{i:03d}.jpg" for i in range(len(poses))]
    try:
        (folder / "images").mkdir(parents=True, exist_ok=True)  # before long work
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            frames = list(pool.map(lambda pose: _photograph(trace, pose, width, height), poses))
        for name, (picture, _) in zip(names, frames, strict=True):
            Picture.fromarray(picture).save(folder / "images" / name, quality=95, subsampling=0)
        if depths:
            _write_depths(folder / "depths", names, trace, poses, width, height)
        write_model(folder / "sparse" / "0", _model(names, poses, frames, bounds, num_points, rng))
    except OSError as error:
        raise write_error(folder, error) from error


def require_size(num_views: int, width: int, height: int) -> None:
    """SceneError if the number of views or the size is zero."""
    if min(num_views, width, height) < 1:
        raise SceneError(f"{num_views} views of {width}x{height} were asked for; give at least 1 view of 1x1")


def look_at(center: np.ndarray, target: np.ndarray, roll: float = 0.0) -> np.ndarray:
    """World to camera, float64 [4, 4], with x right, y down and z forward; roll: rotation about z, radians."""
    forward = (target - center) / np.linalg.norm(target - center)
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    down = np.cross(forward, right)
    matrix = np.eye(4)
    matrix[0, :3] = np.cos(roll) * right + np.sin(roll) * down
    matrix[1, :3] = np.cos(roll) * down - np.sin(roll) * right
    matrix[2, :3] = forward
    matrix[:3, 3] = -matrix[:3, :3] @ center
    return matrix


def _photograph(trace: Trace, pose: np.ndarray, width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """The picture, uint8 [height, width, 3], and the surface point of each pixel, float32 [height, width, 3]."""
    colors, points = _traced(trace, pose, width, height, samples=2)
    shown = (1 - np.exp(-EXPOSURE * colors)) ** (1 / 2.2)
    shown = shown.reshape(3, height, 2, width, 2).mean(axis=(2, 4)).transpose(1, 2, 0)
    seen = points.reshape(3, height, 2, width, 2)[:, :, 0, :, 0].transpose(1, 2, 0)
    return (shown * 255 + 0.5).astype(np.uint8), seen


def _traced(trace: Trace, pose: np.ndarray, width: int, height: int, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Colours and points [3, n] of the rays through samples x samples places of each pixel, row by row."""
    x = (np.arange(samples * width) + 0.5) / samples - width / 2
    y = (np.arange(samples * height) + 0.5) / samples - height / 2
    u, v = (grid.ravel() for grid in np.meshgrid(x, y))
    rays = pose[:3, :3].T @ np.stack([u, v, np.full_like(u, FOCAL * width)])
    rays = (rays / np.linalg.norm(rays, axis=0)).astype(np.float32)
    return trace((-pose[:3, :3].T @ pose[:3, 3:]).astype(np.float32), rays)


def _write_depths(folder: Path, names: list[str], trace: Trace, poses: np.ndarray, width: int, height: int) -> None:
    """Depths along the cameras' axes at the centres of pixels."""
    folder.mkdir(exist_ok=True)
    for name, pose in zip(names, poses, strict=True):
        _, points = _traced(trace, pose, width, height, samples=1)
        depths = pose[2, :3] @ points + pose[2, 3]
        levels = np.rint(np.clip(DEPTH_LEVELS * depths, 0, 65535)).astype(np.uint16)
        Picture.fromarray(levels.reshape(height, width)).save((folder / name).with_suffix(".png"))


def _model(
    names: list[str],
    poses: np.ndarray,
    frames: list[tuple[np.ndarray, np.ndarray]],
    bounds: np.ndarray,
    num_points: int,
    rng: np.random.Generator,
) -> Model:
    """A COLMAP model: one camera, the poses, and noisy surface points."""
    height, width = frames[0][0].shape[:2]
    camera = Camera(1, "PINHOLE", width, height, (FOCAL * width, FOCAL * width, width / 2, height / 2))
    images = []
    for number, (name, pose) in enumerate(zip(names, poses @ np.linalg.inv(UPRIGHT), strict=True), 1):
        quat = tuple(quat_from_matrix(pose[:3, :3]).tolist())
        images.append(Image(number, camera.id, name, quat, tuple(pose[:3, 3].tolist())))
    view = rng.integers(len(frames), size=num_points)
    row, column = rng.integers(height, size=num_points), rng.integers(width, size=num_points)
    pictures, seen = (np.stack(arrays) for arrays in zip(*frames, strict=True))
    points, colors = seen[view, row, column].astype(np.float64), pictures[view, row, column]
    centers = -(poses[:, :3, :3].transpose(0, 2, 1) @ poses[:, :3, 3:])[view, :, 0]
    depth = np.linalg.norm(points - centers, axis=1, keepdims=True)
    points += NOISE * depth * rng.normal(size=points.shape)
    astray = rng.random(num_points) < OUTLIERS
    points[astray] = bounds.mean(axis=0) + rng.uniform(-1, 1, (int(astray.sum()), 3)) * np.ptp(bounds, axis=0) / 2
    return Model({camera.id: camera}, images, points @ UPRIGHT[:3, :3].T, colors)
