"""Ray-traced photographs, written as if they had been taken and reconstructed by COLMAP."""

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image as Picture

from splat_cli.errors import SceneError
from splat_cli.io.files import write_error
from splat_cli.scene.colmap.binary import write_model
from splat_cli.scene.colmap.model import Camera, Image, Model, lens_of
from splat_cli.scene.lens import RollingShutter
from splat_cli.scene.quaternion import quat_from_matrix, world_to_camera

FOCAL = 0.86
"""Focal length over the image's width: a phone's wide camera."""
NOISE = 0.01
"""Standard deviation of a point's error along each axis, over its distance from the camera."""
OUTLIERS = 0.02
"""Fraction of outliers among the points, uniform in the scene."""
EXPOSURE = 1.5
FISHEYE_ANGLE = 200.0
"""Degrees."""
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
    camera: Camera,
    bounds: np.ndarray,
    num_points: int,
    rng: np.random.Generator,
    depths: bool = False,
    shutters: Sequence[RollingShutter] = (),
) -> None:
    """Write `images/` and `sparse/0/` into `folder`. DiskError if it cannot be written.

    poses: float64 [V, 4, 4], world to camera; the world's z points up. bounds: [2, 3], of outlier points. shutters:
    motion of each camera; `transforms.json` then has its poses at both edges, and the COLMAP model those at mid-height.
    depths: also write exact depth maps, `depths/`, 16-bit PNG with DEPTH_LEVELS per world unit. Pixels that the camera
    does not see are black, also in `masks/`.
    """
    width, height = camera.width, camera.height
    names = [f"view_{i:03d}.jpg" for i in range(len(poses))]
    try:
        (folder / "images").mkdir(parents=True, exist_ok=True)  # before long work
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            motions = shutters or [RollingShutter((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))] * len(poses)
            frames = list(pool.map(lambda pose, motion: _photograph(trace, pose, camera, motion), poses, motions))
        for name, (picture, _) in zip(names, frames, strict=True):
            Picture.fromarray(picture).save(folder / "images" / name, quality=95, subsampling=0)
        seen = np.isfinite(_rays(camera, samples=1)[2])
        if not seen.all():
            _write_masks(folder / "masks", names, seen.reshape(height, width))
        if depths:
            _write_depths(folder / "depths", names, trace, poses, camera)
        if shutters:
            _write_transforms(folder / "transforms.json", names, poses, camera, shutters)
        write_model(folder / "sparse" / "0", _model(names, poses, camera, frames, seen, bounds, num_points, rng))
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
    turned = np.cos(roll) * right + np.sin(roll) * down, np.cos(roll) * down - np.sin(roll) * right
    return world_to_camera(np.array([*turned, forward]), center)


def pinhole(width: int, height: int) -> Camera:
    """A phone's camera."""
    return Camera(1, "PINHOLE", width, height, (FOCAL * width, FOCAL * width, width / 2, height / 2))


def fisheye(width: int, height: int) -> Camera:
    """A fisheye lens that shows FISHEYE_ANGLE across the width; pixels farther from the middle are black."""
    focal = width / np.radians(FISHEYE_ANGLE)
    return Camera(1, "OPENCV_FISHEYE", width, height, (focal, focal, width / 2, height / 2, 0.02, -0.003, 0.0, 0.0))


def sphere(width: int, height: int) -> Camera:
    """Equirectangular pictures, 360 by 180 degrees."""
    return Camera(1, "EQUIRECTANGULAR", width, height, (width, height))


CAMERAS = {"pinhole": pinhole, "fisheye": fisheye, "sphere": sphere, "moving": pinhole}


def hand_motion(num_views: int, rng: np.random.Generator) -> list[RollingShutter]:
    """Motion of a camera in a hand while it takes a photograph: up to some degrees and centimetres."""
    motions = rng.normal(0, [np.radians(3)] * 3 + [0.06] * 3, (num_views, 6)).tolist()
    return [RollingShutter((a, b, c), (x, y, z)) for a, b, c, x, y, z in motions]


def _photograph(
    trace: Trace, pose: np.ndarray, camera: Camera, motion: RollingShutter
) -> tuple[np.ndarray, np.ndarray]:
    """The picture, uint8 [height, width, 3], and the surface point of each pixel, float32 [height, width, 3]."""
    colors, points = _traced(trace, pose, camera, 2, motion)
    shown = (1 - np.exp(-EXPOSURE * colors)) ** (1 / 2.2)
    shown = shown.reshape(3, camera.height, 2, camera.width, 2).mean(axis=(2, 4)).transpose(1, 2, 0)
    seen = points.reshape(3, camera.height, 2, camera.width, 2)[:, :, 0, :, 0].transpose(1, 2, 0)
    return (shown * 255 + 0.5).astype(np.uint8), seen


def _rays(camera: Camera, samples: int) -> np.ndarray:
    """Rays [3, n] through samples x samples places of each pixel, row by row; NaN if the camera sees nothing."""
    lens = lens_of(camera)
    x = (np.arange(samples * camera.width) + 0.5) / samples - lens.cx
    y = (np.arange(samples * camera.height) + 0.5) / samples - lens.cy
    u, v = (grid.ravel() for grid in np.meshgrid(x, y))
    if lens.distortion is None:
        return np.stack([u, v, np.full_like(u, lens.fx)])
    rays = lens.distortion.unproject(np.stack([u / lens.fx, v / lens.fy], axis=-1)).T
    is_dark = camera.model == "OPENCV_FISHEYE" and (rays[2] < np.cos(np.radians(FISHEYE_ANGLE / 2)))
    return np.where(is_dark, np.nan, rays)


def _traced(
    trace: Trace, pose: np.ndarray, camera: Camera, samples: int, motion: RollingShutter | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Colours and points [3, n] of `_rays`; 0 if the camera sees nothing."""
    rays, origins = _rays(camera, samples), np.zeros((3, 1))
    if motion is not None and any(motion.rotation + motion.shift):
        times = np.repeat(
            (np.arange(samples * camera.height) + 0.5) / (samples * camera.height), samples * camera.width
        )
        rays, origins = (moved.T for moved in motion.rays(rays.T, times - 0.5))
    seen = np.isfinite(rays[2])
    turned = pose[:3, :3].T @ rays[:, seen]
    turned = (turned / np.linalg.norm(turned, axis=0)).astype(np.float32)
    origins = origins[:, seen] if origins.shape[1] > 1 else origins
    found = trace((pose[:3, :3].T @ (origins - pose[:3, 3:])).astype(np.float32), turned)
    if seen.all():
        return found
    colors, points = np.zeros((2, *rays.shape), np.float32)
    colors[:, seen], points[:, seen] = found
    return colors, points


def _write_masks(folder: Path, names: list[str], seen: np.ndarray) -> None:
    """Masks of the pixels that the camera sees, bool [height, width], the same for all photographs."""
    folder.mkdir(exist_ok=True)
    for name in names:
        Picture.fromarray((255 * seen).astype(np.uint8)).save(folder / f"{name}.png")


def _write_depths(folder: Path, names: list[str], trace: Trace, poses: np.ndarray, camera: Camera) -> None:
    """Depths along the cameras' axes at the centres of pixels."""
    folder.mkdir(exist_ok=True)
    for name, pose in zip(names, poses, strict=True):
        _, points = _traced(trace, pose, camera, samples=1)
        depths = pose[2, :3] @ points + pose[2, 3]
        levels = np.rint(np.clip(DEPTH_LEVELS * depths, 0, 65535)).astype(np.uint16)
        Picture.fromarray(levels.reshape(camera.height, camera.width)).save((folder / name).with_suffix(".png"))


def _write_transforms(
    path: Path, names: list[str], poses: np.ndarray, camera: Camera, shutters: Sequence[RollingShutter]
) -> None:
    """Poses at the times 0 and 1 in instant-ngp's layout: camera to world, -z forward, y up."""
    frames = []
    for name, pose, motion in zip(names, poses @ np.linalg.inv(UPRIGHT), shutters, strict=True):
        ends = {}
        for key, time in (("", 0.0), ("_start", -0.5), ("_end", 0.5)):
            c2w = np.linalg.inv(motion.pose(pose, time)) @ np.diag([1.0, -1.0, -1.0, 1.0])
            ends[f"transform_matrix{key}"] = c2w.tolist()
        frames.append({"file_path": f"images/{name}", **ends, "rolling_shutter": [0.0, 0.0, 1.0, 0.0]})
    matrix = dict(zip(("fl_x", "fl_y", "cx", "cy"), camera.params, strict=True))
    document = {"w": camera.width, "h": camera.height, **matrix, "frames": frames}
    path.write_text(json.dumps(document), encoding="utf-8")


def _model(
    names: list[str],
    poses: np.ndarray,
    camera: Camera,
    frames: list[tuple[np.ndarray, np.ndarray]],
    shown: np.ndarray,
    bounds: np.ndarray,
    num_points: int,
    rng: np.random.Generator,
) -> Model:
    """A COLMAP model: one camera, the poses, and noisy surface points at pixels that are `shown`, bool [n]."""
    images = []
    for number, (name, pose) in enumerate(zip(names, poses @ np.linalg.inv(UPRIGHT), strict=True), 1):
        quat = tuple(quat_from_matrix(pose[:3, :3]).tolist())
        images.append(Image(number, camera.id, name, quat, tuple(pose[:3, 3].tolist())))
    view = rng.integers(len(frames), size=num_points)
    row, column = rng.integers(camera.height, size=num_points), rng.integers(camera.width, size=num_points)
    kept = shown.reshape(camera.height, camera.width)[row, column]
    view, row, column = view[kept], row[kept], column[kept]
    pictures, seen = (np.stack(arrays) for arrays in zip(*frames, strict=True))
    points, colors = seen[view, row, column].astype(np.float64), pictures[view, row, column]
    centers = -(poses[:, :3, :3].transpose(0, 2, 1) @ poses[:, :3, 3:])[view, :, 0]
    depth = np.linalg.norm(points - centers, axis=1, keepdims=True)
    points += NOISE * depth * rng.normal(size=points.shape)
    astray = rng.random(len(points)) < OUTLIERS
    points[astray] = bounds.mean(axis=0) + rng.uniform(-1, 1, (int(astray.sum()), 3)) * np.ptp(bounds, axis=0) / 2
    return Model({camera.id: camera}, images, points @ UPRIGHT[:3, :3].T, colors)
