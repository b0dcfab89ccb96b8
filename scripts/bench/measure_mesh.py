"""Measure a mesh of the sample scene against its true surface: precision, recall and F-score.

A point counts as right if it lies within a tolerance of 1 % of the longest side of the room. The true surface is what
the scene's cameras see, evenly sampled. Example:

  splat demo demo && splat mesh demo/run room.ply && python scripts/bench/measure_mesh.py room.ply
"""

from pathlib import Path

import click
import numpy as np
import plyfile
from scipy.spatial import cKDTree

from splat_cli.sample.photographs import FOCAL, UPRIGHT
from splat_cli.sample.room import camera_poses, make_room
from splat_cli.sample.shapes import nearest
from splat_cli.sample.surfaces import HALF

SIDE = 2 * max(HALF)
_SAMPLES = 50_000


def true_surface(spacing: float, num_views: int = 48, seed: int = 0) -> np.ndarray:
    """Points [P, 3] of what the views of the sample scene see, about one per cube of side `spacing`."""
    shapes, found = make_room(), []
    width, height = 768, 576
    x, y = np.arange(width) + 0.5 - width / 2, np.arange(height) + 0.5 - height / 2
    u, v = (grid.ravel() for grid in np.meshgrid(x, y))
    for pose in camera_poses(num_views, np.random.default_rng(seed)):
        rays = pose[:3, :3].T @ np.stack([u, v, np.full_like(u, FOCAL * width)])
        rays = (rays / np.linalg.norm(rays, axis=0)).astype(np.float32)
        center = (-pose[:3, :3].T @ pose[:3, 3:]).astype(np.float32)
        found.append(thinned((center + nearest(shapes, center, rays)[0] * rays).T, spacing))
    return thinned(np.concatenate(found), spacing) @ UPRIGHT[:3, :3].T


def thinned(points: np.ndarray, spacing: float) -> np.ndarray:
    """One point [3 or more columns] per cube of side `spacing`."""
    keys = np.floor(points[:, :3] / spacing).astype(np.int64) @ np.array([1 << 40, 1 << 20, 1])
    chosen: np.ndarray = points[np.unique(keys, return_index=True)[1]]
    return chosen


def on_surface(vertices: np.ndarray, faces: np.ndarray, num: int) -> np.ndarray:
    """Random points [num, 3], uniform on the triangles."""
    rng = np.random.default_rng(0)
    corners = vertices[faces]
    edges = corners[:, 1:] - corners[:, :1]
    areas = np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1)
    which = rng.choice(len(faces), num, p=areas / areas.sum())
    a, b = rng.random((2, num, 1))
    outside = a + b > 1
    a, b = np.where(outside, 1 - a, a), np.where(outside, 1 - b, b)
    points: np.ndarray = corners[which, 0] + a * edges[which, 0] + b * edges[which, 1]
    return points


def f_score(mesh: np.ndarray, true: np.ndarray, tolerance: float) -> tuple[float, float, float]:
    """(F-score, precision, recall) of points on a mesh [M, 3] against points on the true surface [P, 3]."""
    precision = float((cKDTree(true).query(mesh[:_SAMPLES])[0] < tolerance).mean())
    recall = float((cKDTree(mesh).query(true[:: max(1, len(true) // _SAMPLES)])[0] < tolerance).mean())
    return 2 * precision * recall / max(precision + recall, 1e-9), precision, recall


@click.command()
@click.argument("mesh", type=click.Path(path_type=Path, exists=True))
@click.option("--views", default=48, show_default=True, help="Number of views of the scene.")
@click.option("--seed", default=0, show_default=True, help="Seed of the scene.")
def main(mesh: Path, views: int, seed: int) -> None:
    """Print F-score, precision and recall of MESH, a .ply of `splat mesh`."""
    data = plyfile.PlyData.read(str(mesh))
    vertices = np.stack([data["vertex"][name] for name in "xyz"], axis=1).astype(np.float64)
    points = on_surface(vertices, np.stack(data["face"]["vertex_indices"]), 8 * _SAMPLES)
    true = true_surface(SIDE / 400, views, seed)
    for share in (0.01, 0.02):
        score, precision, recall = f_score(points, true, share * SIDE)
        found = f"F-score {score:.3f}, precision {precision:.3f}, recall {recall:.3f}"
        print(f"within {share:.0%} ({share * SIDE:.3f} m): {found}")


if __name__ == "__main__":
    main()
