"""Memory and time per pass of training on synthetic scenes with any number of splats and pixels.

  python scripts/bench/bench_scale.py --case 10000000,1600x1066 --case 20000000,1600x1066 --case 4000000,3840x2160
  python scripts/bench/bench_scale.py --case 10000000,1600x1066 --set batch=1 --compare visible_adam=true
  python scripts/bench/bench_scale.py --case 40000000,1600x1066 --set batch=1 --compare max_memory=16.0

Splats are on the walls of a room, as dense as in a trained model; cameras are inside it. The trainer uses
antialiasing, dropout and noise, but no density control.
"""

from __future__ import annotations

import gc
import tomllib

import click
import numpy as np
from live_passes import table
from timing import copy_bandwidth

from splat_cli.config.presets import load_config
from splat_cli.device import Backend, open_backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.run.plan import resolve_plan
from splat_cli.run.setup.build_trainer import build_trainer
from splat_cli.run.setup.memory_plan import plan_memory
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.view import View
from splat_cli.train.allocation import training_memory
from splat_cli.train.trainer import Trainer, TrainingInputs

HALF_SIDE = 4.0  # size of the room, world units
NUM_VIEWS = 16
FOCAL = 0.5  # focal length / image width
SIZE = 0.5  # size of a splat / distance to the next one
GIB = 2**30


def room(num: int, rng: np.random.Generator, total: int | None = None, sh_degree: int = 3) -> SplatArrays:
    """`num` flat splats on the walls of a cube. Three quarters are rather transparent, as in a trained model.

    total: number of splats in the whole room, which determines their size; `num` is a part of them.
    """
    means = rng.uniform(-HALF_SIDE, HALF_SIDE, (num, 3)).astype(np.float32)
    axis = rng.integers(0, 3, num)
    walls = np.where(rng.random(num) < 0.5, -HALF_SIDE, HALF_SIDE) + rng.normal(0, 0.02, num)
    means[np.arange(num), axis] = walls
    spacing = np.sqrt(6 * (2 * HALF_SIDE) ** 2 / (total or num))
    scales = SIZE * spacing * rng.lognormal(0, 0.5, (num, 3))
    scales[np.arange(num), axis] *= 0.1
    opacities = rng.choice([-1.5, 2.0], num, p=[0.75, 0.25])
    return SplatArrays(
        means=means,
        log_scales=np.log(scales).astype(np.float32),
        quats=np.tile(np.array([1, 0, 0, 0], np.float32), (num, 1)),
        logit_opacities=opacities.astype(np.float32),
        sh0=rng.normal(0, 0.5, (num, 3)).astype(np.float32),
        shN=np.zeros((num, (sh_degree + 1) ** 2 - 1, 3), np.float32),
    )


def views_inside(width: int, height: int, num_views: int = NUM_VIEWS, focal_length: float = FOCAL) -> list[View]:
    """Cameras on a ring, looking across the room; by default each sees about a fifth of the splats.

    focal_length: relative to the width.
    """
    views = []
    for index in range(num_views):
        angle = 2 * np.pi * index / num_views
        forward = np.array([np.cos(angle), 0.0, np.sin(angle)])
        right = np.array([-np.sin(angle), 0.0, np.cos(angle)])
        w2c = np.eye(4)
        w2c[:3, :3] = np.stack([right, np.cross(forward, right), forward])
        w2c[:3, 3] = -w2c[:3, :3] @ (-0.5 * HALF_SIDE * forward)
        focal = focal_length * width
        views.append(View(f"{index:02d}", None, width, height, focal, focal, width / 2, height / 2, w2c))
    return views


def make(backend: Backend, num: int, width: int, height: int, settings: dict[str, object]) -> Trainer:
    """A trainer of the room, with splats in the order of training and all SH degrees in use."""
    rng = np.random.default_rng(0)
    views = views_inside(width, height)
    images = [rng.integers(0, 256, (height, width, 3), dtype=np.uint8) for _ in views]
    fixed = {"steps": 30_000, "max_splats": num, "splat_budget": 0.0, "densify_start": 30_000, "densify_stop": 30_000}
    config = load_config(None, fixed | settings)
    plan = resolve_plan(config, views, from_splats=True)
    memory = plan_memory(backend, plan.config, views, num)
    print(memory.line(), memory.on_device or "", flush=True)
    inputs = TrainingInputs(ImageSet(views, images, [None] * NUM_VIEWS, []))
    trainer = build_trainer(backend, plan, inputs, room(num, rng), on_device=memory.on_device)
    trainer.model.sort_spatially()
    trainer.run_until(8)
    return trainer


@click.command()
@click.option("--case", "cases", multiple=True, required=True, metavar="SPLATS,WIDTHxHEIGHT")
@click.option("--steps", "num_steps", default=30, help="Number of steps to time.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting, its value as in TOML.")
@click.option("--compare", "changes", multiple=True, metavar="NAME=VALUE", help="Repeat each case with this setting.")
@click.option("--device", default="auto")
def main(
    cases: tuple[str, ...], num_steps: int, settings: tuple[str, ...], changes: tuple[str, ...], device: str
) -> None:
    """One table for each case, and one more for each change."""
    backend = open_backend(device)
    bandwidth = copy_bandwidth(backend)
    print(f"{backend.describe()}, copy {bandwidth:.0f} GB/s; {' '.join(settings)}")
    for case in cases:
        for change in ("", *changes):
            measure(backend, case, [*settings, change], num_steps, bandwidth)
            gc.collect()
            backend.release_cached()


def measure(backend: Backend, case: str, settings: list[str], num_steps: int, bandwidth: float) -> None:
    """Print the memory and the passes of a case. settings: lines of TOML."""
    count, size = case.split(",")
    width, height = map(int, size.split("x"))
    before = backend.memory()[0]
    trainer = make(backend, int(count), width, height, tomllib.loads("\n".join(settings)))
    used = before - backend.memory()[0]
    per_splat = training_memory(trainer.config, NUM_VIEWS).per_splat / GIB * trainer.splats.capacity
    pairs = trainer.rasterizer.tiles.pair_capacity
    print(f"\n## {int(count):,} splats, {width}x{height} {settings[-1]}\n")
    print(f"{used / GIB:.1f} GiB taken; {per_splat:.1f} GiB planned for splats; room for {pairs:,} pairs\n")
    print(table(trainer, num_steps, bandwidth), flush=True)


if __name__ == "__main__":
    main()
