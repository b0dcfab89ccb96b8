"""A second sample scene, of things that planes of a mesh could swallow, and how exact a mesh is at each of them.

A tray on the floor, a ramp of 5 degrees, a flat cushion, a shelf of 5 cm and a cabinet of 8 cm on walls, beside a
sphere, a column and a slanted roof. Example:

  python scripts/bench/low_objects.py write scene --views 64 --width 240
  splat train scene -o run --free-space 1 --depth-weight 1 --opacity-reg 0 --sh-degree 0 --steps 2500
  splat mesh run mesh.ply && python scripts/bench/low_objects.py measure mesh.ply --views 64
"""

from pathlib import Path

import click
import numpy as np
import plyfile
from measure_mesh import SIDE, f_score, on_surface, thinned
from scipy.spatial import cKDTree

from splat_cli.sample.light import bake, radiance
from splat_cli.sample.photographs import FOCAL, UPRIGHT, pinhole, write_photographs
from splat_cli.sample.room import camera_poses
from splat_cli.sample.shapes import Box, Cylinder, Room, Shape, Sphere, linear, nearest
from splat_cli.sample.surfaces import HALF, bands, checks, noise, plain, rgb, slats

WALLS = ("c9b79a", "b8c4b0", "d8cfc0", "a9b4c4", "9a7a58", "efe9dc")
FLOOR = 4
_SAMPLES = 400_000


def make_shapes() -> dict[str, Shape]:
    """All shapes by name; the first is the room itself. Metres, z up, the floor at 0."""
    return {
        "room": Room((0, 0, HALF[2]), HALF, _wall_paint, texels=64),
        "sphere": Sphere((0, 0, 0.5), (0.5, 0.5, 0.5), plain("b04a3a", 0.06, 12)),
        "roof": _tilted(Box((-1, 0.9, 0.75), (0.7, 0.5, 0.02), slats(0.14), turn=20), 32),
        "shelf": Box((0.4, HALF[1] - 0.025, 1.1), (0.8, 0.025, 0.18), plain("70523a", 0.06, 12)),
        "cabinet": Box((HALF[0] - 0.04, -1.2, 1.2), (0.04, 0.5, 0.3), checks("d9694a", "f3ead9", 0.16)),
        "tray": Box((0.95, -0.75, 0.02), (0.4, 0.3, 0.02), plain("e8e4da", 0.06, 12), turn=30),
        "ramp": _tilted(Box((-0.9, -1, 0), (0.8, 0.45, 0.04), plain("7a8a6a", 0.06, 12), turn=-15), 5),
        "column": Cylinder((1.5, 1.2, 0.6), (0.3, 0.3, 0.6), bands(("d9d2c2", "cbbfa8"), 0.3)),
        "cushion": Sphere((-1.9, -2.4, 0), (0.9, 0.5, 0.12), plain("6a5a7a", 0.06, 12)),
    }


def _wall_paint(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Plain paint with faint spots, and tiles on the floor."""
    colors = np.empty_like(points)
    for face, code in enumerate(WALLS):
        index = np.flatnonzero(faces == face)
        x, y = np.delete(points[:, index], face // 2, axis=0)
        shade = (0.95 + 0.1 * noise(x * 2.5, y * 2.5)) * (0.98 + 0.04 * noise(x * 14, y * 14))
        dark = (face == FLOOR) & ((np.floor(x / 0.4) + np.floor(y / 0.4)) % 2 > 0)
        colors[:, index] = rgb(code) * shade * np.where(dark, 0.7, 1)
    return colors


def _tilted(box: Box, degrees: float) -> Box:
    """The box after a rotation about its own y axis."""
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    turn = np.array([[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]], np.float32)
    axes = (box.to_world / box.size.T) @ turn
    box.to_world, box.to_local = linear(axes * box.size.T), linear((axes / box.size.T).T)
    box.to_normals = linear(axes / box.size.T)
    return box


def true_surface(views: int) -> tuple[np.ndarray, np.ndarray]:
    """Points [P, 3] of what the views see, about one per cube of SIDE / 400, and the numbers [P] of their shapes."""
    shapes, found = list(make_shapes().values()), []
    width, height = 768, 576
    x, y = np.meshgrid(np.arange(width) + 0.5 - width / 2, np.arange(height) + 0.5 - height / 2)
    for pose in camera_poses(views, np.random.default_rng(0)):
        rays = pose[:3, :3].T @ np.stack([x.ravel(), y.ravel(), np.full(x.size, FOCAL * width)])
        rays = (rays / np.linalg.norm(rays, axis=0)).astype(np.float32)
        center = (-pose[:3, :3].T @ pose[:3, 3:]).astype(np.float32)
        distances, which = nearest(shapes, center, rays)
        found.append(thinned(np.c_[(center + distances * rays).T, which], SIDE / 400))
    points = thinned(np.concatenate(found), SIDE / 400)
    return points[:, :3] @ UPRIGHT[:3, :3].T, points[:, 3].astype(int)


@click.group()
def main() -> None:
    """Write the scene, or measure a mesh of it."""


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--views", default=64, show_default=True)
@click.option("--width", default=240, show_default=True, help="Width of the photographs in pixels.")
def write(folder: Path, views: int, width: int) -> None:
    """Write photographs and a COLMAP model to FOLDER."""
    rng, shapes = np.random.default_rng(0), list(make_shapes().values())
    poses, light = camera_poses(views, rng), bake(shapes)
    bounds = np.array([[-HALF[0], -HALF[1], 0], [HALF[0], HALF[1], 2 * HALF[2]]])
    camera = pinhole(width, width * 3 // 4)
    write_photographs(folder, lambda c, rays: radiance(shapes, light, c, rays), poses, camera, bounds, 5000, rng)


@main.command()
@click.argument("mesh", type=click.Path(path_type=Path, exists=True))
@click.option("--views", default=64, show_default=True, help="Number of views of the scene.")
def measure(mesh: Path, views: int) -> None:
    """Print the F-score of MESH, a .ply of `splat mesh`, and its median distance from each thing."""
    data = plyfile.PlyData.read(str(mesh))
    vertices = np.stack([data["vertex"][name] for name in "xyz"], axis=1).astype(np.float64)
    points = on_surface(vertices, np.stack(data["face"]["vertex_indices"]), _SAMPLES)
    true, which = true_surface(views)
    score, precision, recall = f_score(points, true, 0.01 * SIDE)
    print(f"within 1%: F-score {score:.3f}, precision {precision:.3f}, recall {recall:.3f}")
    distances = cKDTree(points).query(true)[0]
    for number, name in enumerate(make_shapes()):
        print(f"{name}: {100 * np.median(distances[which == number]):.1f} cm")


if __name__ == "__main__":
    main()
