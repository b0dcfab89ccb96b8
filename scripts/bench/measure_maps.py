"""Errors of depth and normal maps of a run on the sample scene, against the scene's shapes, for docs/rendering.md.

splat demo demo && python scripts/bench/measure_maps.py demo/run
"""

from pathlib import Path

import click
import numpy as np

from splat_cli.device import open_backend
from splat_cli.gaussians.splats import Splats
from splat_cli.render.rendered_maps import RenderedMaps, render_maps
from splat_cli.render.view import ViewRenderer
from splat_cli.run.storage.load_run import load_trained_splats
from splat_cli.sample.photographs import UPRIGHT
from splat_cli.sample.room import make_room
from splat_cli.sample.shapes import Shape, nearest
from splat_cli.scene.view import View


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True))
@click.option("--device", default="auto")
def main(run: Path, device: str) -> None:
    """Print errors over the held-out views, where splats hide most of the background."""
    backend, (splats, folder) = open_backend(device), load_trained_splats(run)
    assert folder is not None
    views = folder.views("test")
    renderer = ViewRenderer(backend, Splats.from_arrays(backend, splats), views, splats.antialiased)
    errors: dict[str, list[np.ndarray]] = {"depth, %": [], "normal, degrees": [], "normal from depth, degrees": []}
    for index, view in enumerate(views):
        frame = render_maps(renderer, index, maps=("alpha", "depth", "normal"))
        for name, error in zip(errors, _errors(frame, view), strict=True):
            errors[name].append(error)
    for name, parts in errors.items():
        error = np.concatenate(parts)
        print(f"{name:28} median {np.median(error):6.2f}, mean {error.mean():6.2f}")


def _errors(frame: RenderedMaps, view: View) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors of depth (percent), of normals and of normals from depths (degrees), at the selected pixels."""
    assert frame.alpha is not None
    assert frame.depth is not None
    assert frame.normal is not None
    rays = _rays(view)
    depth, normal = _truth(make_room(), view, rays)
    points = rays * frame.depth[..., None]
    slope = _towards(np.cross(np.gradient(points, axis=0), np.gradient(points, axis=1)), rays)
    counts = frame.alpha > 0.5
    percent = 100 * np.abs(frame.depth - depth) / depth
    return percent[counts], _angles(frame.normal, normal)[counts], _angles(slope, normal)[counts]


def _rays(view: View) -> np.ndarray:
    """Rays through the pixels, at depth 1, [H, W, 3] in the camera's frame."""
    x, y = np.meshgrid(np.arange(view.width) + 0.5 - view.cx, np.arange(view.height) + 0.5 - view.cy)
    return np.stack([x / view.fx, y / view.fy, np.ones_like(x)], axis=-1)


def _truth(shapes: list[Shape], view: View, rays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Depth [H, W] and normal [H, W, 3] in the camera's frame of the surfaces that the rays hit."""
    pose = view.w2c @ UPRIGHT
    lengths = np.linalg.norm(rays, axis=-1)
    directions = pose[:3, :3].T @ (rays / lengths[..., None]).reshape(-1, 3).T
    center = -pose[:3, :3].T @ pose[:3, 3:]
    distances, which = nearest(shapes, center.astype(np.float32), directions.astype(np.float32))
    points = center + distances * directions
    normals = np.empty_like(points)
    for i, shape in enumerate(shapes):
        met = which == i
        normals[:, met] = shape.normals(shape.local(points[:, met])) if i else _wall_normals(shape, points[:, met])
    normal = (pose[:3, :3] @ normals).T.reshape(rays.shape)
    return distances.reshape(lengths.shape) / lengths, _towards(normal, rays)


def _wall_normals(room: Shape, points: np.ndarray) -> np.ndarray:
    """Normals of the room's walls at points [3, n]: the axis along which a point is farthest out."""
    offsets = (points - room.center.reshape(3, 1)) / np.reshape(room.size, (3, 1))
    return np.eye(3)[np.abs(offsets).argmax(axis=0)].T


def _towards(vectors: np.ndarray, rays: np.ndarray) -> np.ndarray:
    """The vectors normalised and turned towards the camera."""
    away = (vectors * rays).sum(axis=-1, keepdims=True) > 0
    return np.where(away, -1, 1) * vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def _angles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.degrees(np.arccos(np.clip((a * b).sum(axis=-1), -1, 1)))


if __name__ == "__main__":
    main()
