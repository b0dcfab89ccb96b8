"""Compare training on 360-degree photographs with training on perspective photographs taken at the same places.

    python scripts/bench/sphere_walk.py FOLDER --steps 2000

Writes photographs of the sample room into FOLDER: spheres, the faces of cubes at the same places with as many pixels,
and perspective pictures in random directions from held-out places. Trains on the spheres, and on the cubes with the six
faces of a place per update, from the same points. Prints the PSNR of the perspective pictures, rendered as by
`splat render --path`, at two fields of view; and of their pixels by elevation. Photographs are ray-traced four times as
large and downscaled.
"""

import dataclasses
import itertools
import sys
from pathlib import Path

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import splat_cli
from splat_cli.device import Backend, open_backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.images import to_8bit
from splat_cli.render.view import ViewRenderer
from splat_cli.sample import NUM_POINTS
from splat_cli.sample.light import bake, radiance
from splat_cli.sample.photographs import CAMERAS, write_photographs
from splat_cli.sample.room import camera_poses, make_room
from splat_cli.sample.surfaces import HALF
from splat_cli.scene.colmap.model import Camera
from splat_cli.scene.images.image_set import ImageSet, load_images
from splat_cli.scene.plane_sweep import CUBE

FINER = 4
HOLD_OUT = 8
ELEVATIONS = (-90, -60, -30, 0, 30, 60, 90)
FIELDS = (90, 60)
"""Degrees, as elevations."""


def write_scenes(folder: Path, width: int, num_places: int) -> None:
    """Write `spheres` of width x width / 2 pixels, `cubes` and `held_out` into `folder`, FINER times as large."""
    rng = np.random.default_rng(0)
    places, shapes = camera_poses(num_places, rng, level=True), make_room()
    light, bounds = bake(shapes), np.array([[-HALF[0], -HALF[1], 0], [HALF[0], HALF[1], 2 * HALF[2]]])
    is_held_out = np.arange(num_places) % HOLD_OUT == 0
    turns = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(num_places)]
    scenes = {
        "spheres": (places, CAMERAS["sphere"](FINER * width, FINER * width // 2)),
        "cubes": (turned(places[~is_held_out], [np.eye(3)] * num_places), face(round(width / np.sqrt(12)))),
        "held_out": (turned(places[is_held_out], turns), face(width // 3)),
    }
    for name, (poses, camera) in scenes.items():
        write_photographs(
            folder / name,
            lambda center, rays: radiance(shapes, light, center, rays),
            poses,
            camera,
            bounds,
            NUM_POINTS,
            np.random.default_rng(1),
        )


def face(side: int) -> Camera:
    """The camera of a cube's face of `side` pixels."""
    return Camera(1, "PINHOLE", FINER * side, FINER * side, (FINER * side / 2,) * 4)


def turned(places: np.ndarray, turns: list[np.ndarray]) -> np.ndarray:
    """Poses of the six faces of a cube at each place, turned by a rotation (or mirrored: the same six directions)."""
    poses = []
    for place, turn in zip(places, turns, strict=False):
        for face_turn in CUBE:
            pose = place.copy()
            pose[:3] = face_turn @ (np.sign(np.linalg.det(turn)) * turn) @ place[:3]
            poses.append(pose)
    return np.array(poses)


def train(folder: Path, steps: int, seed: int, device: str) -> dict[str, SplatArrays]:
    """Splats of both runs. Prints the PSNR of held-out spheres."""
    spheres = splat_cli.train_scene(
        folder / "spheres", init="points", downscale=FINER, steps=steps, eval=True, seed=seed, device=device, quiet=True
    )
    print(f"held-out spheres: {spheres.evaluate()}", flush=True)
    cubes = splat_cli.read_scene(folder / "cubes", downscale=FINER)
    points = splat_cli.read_scene(folder / "spheres")
    cubes.points, cubes.colors = points.points, points.colors
    run = splat_cli.train_scene(cubes, batch=6, init="points", steps=6 * steps, seed=seed, device=device, quiet=True)
    return {"spheres": spheres.splats, "cubes": run.splats}


def print_scores(backend: Backend, name: str, splats: SplatArrays, photographs: ImageSet) -> None:
    """A row for each field of view."""
    for field in FIELDS:
        cut = round(photographs.views[0].width / 2 * (1 - np.tan(np.radians(field / 2))))
        side = photographs.views[0].width - 2 * cut
        views = [dataclasses.replace(v, width=side, height=side, cx=side / 2, cy=side / 2) for v in photographs.views]
        renderer = ViewRenderer(backend, Splats.from_arrays(backend, splats), views, novel_views=True)
        squares, elevations = [], []
        for index, (view, photo) in enumerate(zip(views, photographs.images, strict=True)):
            picture = to_8bit(renderer.render(index)).astype(float)
            squares.append(((picture - photo[cut : cut + side, cut : cut + side]) ** 2).mean(axis=2) / 255**2)
            down = view.rays() @ view.w2c[:3, 1] / np.linalg.norm(view.rays(), axis=-1)
            elevations.append(np.degrees(-np.arcsin(down)))
        psnr = np.mean([-10 * np.log10(square.mean()) for square in squares])
        pixels, at = np.array(squares), np.array(elevations)
        rings = [-10 * np.log10(pixels[(at >= a) & (at < b)].mean()) for a, b in itertools.pairwise(ELEVATIONS)]
        print(f"{name:8} {field:>7} {psnr:6.2f} " + " ".join(f"{ring:10.2f}" for ring in rings), flush=True)


@click.command(help=__doc__)
@click.argument("folder", type=Path)
@click.option("--steps", default=2000, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--width", default=192, show_default=True, help="Of the spheres.")
@click.option("--places", default=40, show_default=True)
@click.option("--device", default="auto", show_default=True)
def main(folder: Path, steps: int, seed: int, width: int, places: int, device: str) -> None:
    if not (folder / "held_out").exists():
        write_scenes(folder, width, places)
    backend = open_backend(device)
    runs = train(folder, steps, seed, device)
    photographs = load_images(splat_cli.read_scene(folder / "held_out", downscale=FINER).views, backend=backend)
    print(
        f"{'run':10} {'degrees':>6} {'PSNR':>6}   "
        + " ".join(f"{a:>3}-{b:<3}" for a, b in itertools.pairwise(ELEVATIONS))
    )
    for name, splats in runs.items():
        print_scores(backend, name, splats, photographs)


if __name__ == "__main__":
    main()
