"""Training on tens of millions of splats, on one or several GPUs: time and memory, from the file to the last step.

  python scripts/bench/bench_large.py --splats 100000000 --gpus 2 --folder /tmp/large

Makes a room of that many splats (a PLY of SH degree 0, 68 bytes per splat) and 8 photographs of noise. Each of them
shows about 30 % of the splats. Runs `splat train --init-from` on it without density control. One GPU sorts the splats
first, as rounds of density control do; several GPUs, and --shuffled, leave them in random order. The result is saved
only with --save: as a PLY of degree 3 it has 248 bytes per splat.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import numpy as np
from bench_scale import room, views_inside
from peak_memory import PeakMemory
from PIL import Image as Picture

from splat_cli.config.presets import load_config
from splat_cli.device import num_cores
from splat_cli.gaussians.ply import splat_header, splat_rows
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.run.device import open_device
from splat_cli.run.run_writer import RunWriter
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.run.train_scene import train_scene
from splat_cli.scene.colmap.binary import write_model
from splat_cli.scene.colmap.model import Camera, Image, Model
from splat_cli.scene.quaternion import quat_from_matrix
from splat_cli.terminal.console import Display, Progress
from splat_cli.train import initial_splats, trainer
from splat_cli.train.allocation import make_model
from splat_cli.train.multi_gpu.sharded_views import ShardedViews
from splat_cli.train.multi_gpu.shares import SharedSplats
from splat_cli.train.trainer import Trainer

CHUNK = 1 << 19  # splats that a thread makes at a time
NUM_VIEWS, FOCAL = 8, 0.4  # photographs; focal length / image width, with which they show 30 % of the splats
GIB = 2**30


def make_splats(path: Path, num: int) -> None:
    """Write a room of `num` splats, a part in each thread."""
    header = splat_header(room(1, np.random.default_rng(0), sh_degree=0), num)
    beside = path.with_suffix(".part")
    with beside.open("wb") as file, ThreadPoolExecutor(num_cores()) as threads:
        file.write(header)
        file.flush()

        def write(first: int) -> None:
            part = room(min(CHUNK, num - first), np.random.default_rng(first), total=num, sh_degree=0)
            rows = splat_rows(part)
            if os.pwrite(file.fileno(), rows.data, len(header) + rows.itemsize * rows.shape[1] * first) < rows.nbytes:
                raise OSError("the disk is full")

        list(threads.map(write, range(0, num, CHUNK)))
    beside.replace(path)


def make_photographs(folder: Path, width: int, height: int) -> None:
    """Write photographs of noise and their cameras."""
    views, rng = views_inside(width, height, NUM_VIEWS, FOCAL), np.random.default_rng(0)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for view in views:
        noise = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Picture.fromarray(noise).save(folder / "images" / f"{view.name}.jpg")
    first = views[0]
    camera = Camera(1, "PINHOLE", width, height, (first.fx, first.fy, first.cx, first.cy))
    images = [
        Image(number, 1, f"{view.name}.jpg", tuple(quat_from_matrix(view.w2c[:3, :3])), tuple(view.w2c[:3, 3]))
        for number, view in enumerate(views, 1)
    ]
    points = room(1000, rng).means.astype(np.float64)
    write_model(folder / "sparse" / "0", Model({1: camera}, images, points, np.full((1000, 3), 128, np.uint8)))


class Timed(Display):
    """Prints the time of each progress report, and other lines as usual."""

    def __init__(self, batch: int) -> None:
        super().__init__()
        self.begin, self._batch = time.perf_counter(), batch

    @contextmanager
    def training(self, num_steps: int, first: int = 0) -> Iterator[Callable[[Progress], None]]:
        """See Display.training."""
        last_step, last_time = first, time.perf_counter()

        def show(progress: Progress) -> None:
            nonlocal last_step, last_time
            now, batches = time.perf_counter(), (progress.step - last_step) / self._batch
            speed = f"{(now - last_time) / batches:.3f} s per batch of {self._batch}, " if batches else ""
            print(f"step {progress.step} at {now - self.begin:.2f} s: {speed}loss {progress.loss:.4f}", flush=True)
            last_step, last_time = progress.step, time.perf_counter()

        yield show


@contextmanager
def timed(owner: Any, name: str) -> Iterator[None]:
    """Print the seconds of each call of a function or method."""
    original = getattr(owner, name)

    def call(*arguments: Any, **options: Any) -> Any:
        begin = time.perf_counter()
        result = original(*arguments, **options)
        print(f"{name}: {time.perf_counter() - begin:.2f} s", flush=True)
        return result

    with patch.object(owner, name, call):
        yield


def sorted_model(*arguments: Any) -> Any:
    """A model with splats in the order of training."""
    model = make_model(*arguments)
    model.sort_spatially()
    return model


@click.command()
@click.option("--splats", "num", type=int, required=True)
@click.option("--gpus", default=1)
@click.option("--batch", type=int, help="By default the number of GPUs.")
@click.option("--steps", default=20)
@click.option("--size", default="1600x1066", metavar="WIDTHxHEIGHT", help="Size of the photographs.")
@click.option("--max-memory", type=float, metavar="GIB", help="More rows than fit into it are in host memory.")
@click.option("--visible-adam", is_flag=True)
@click.option("--shuffled", is_flag=True, help="Leave the splats in random order.")
@click.option("--folder", type=Path, required=True, help="Folder of the scene, which is made if it is missing.")
@click.option("--only-make", is_flag=True, help="Make the scene without training.")
@click.option("--save", is_flag=True, help="Write the result, too.")
@click.option("--device", default="auto")
def main(
    num: int,
    gpus: int,
    batch: int | None,
    steps: int,
    size: str,
    max_memory: float | None,
    visible_adam: bool,
    shuffled: bool,
    folder: Path,
    only_make: bool,
    save: bool,
    device: str,
) -> None:
    """Print seconds of each phase and batch, and the peaks of memory."""
    splats = folder / f"{num}.ply"
    begin = time.perf_counter()
    if not (folder / "sparse").is_dir():
        make_photographs(folder, *map(int, size.split("x")))
    if not splats.is_file():
        make_splats(splats, num)
        print(f"{num:,} splats, {splats.stat().st_size / GIB:.1f} GiB: made in {time.perf_counter() - begin:.1f} s")
    if only_make:
        return
    config = load_config(
        None,
        {
            "steps": steps,
            "gpus": gpus,
            "batch": batch,
            "max_memory": max_memory,
            "visible_adam": visible_adam,
            "init_from": str(splats),
            "max_splats": num,
            "splat_budget": 0.0,
            "densify_start": 1_000_000,
            "coarse_until": 0.0,
            "keep": 0,
            "save_at": (),
            "report": False,
        },
    )
    display = Timed(config.batch_size)
    backend = open_device(device, config, display)
    with ExitStack() as stack:
        if gpus == 1 and not shuffled:
            stack.enter_context(patch.object(trainer, "make_model", sorted_model))
        peak, out = stack.enter_context(PeakMemory()), stack.enter_context(tempfile.TemporaryDirectory(dir=folder))
        for owner, name in (
            (initial_splats, "read_splats"),
            (trainer, "make_model"),
            (Trainer, "__init__"),
            (SharedSplats, "load"),
            (SharedSplats, "splats"),
            (ShardedViews, "grow_if_overflowed"),
            (Rasterizer, "resize_pairs"),
        ):
            stack.enter_context(timed(owner, name))
        if save:
            stack.enter_context(timed(RunWriter, "write"))
        else:
            stack.enter_context(patch.object(RunWriter, "write"))
            stack.enter_context(patch("splat_cli.run.train_scene.require_space"))  # nothing is written
        run = RunDir(Path(out))
        train_scene(folder, run, config, backend, display)
        total, phases = time.perf_counter() - display.begin, run.log.entries()[-1]["phases"]
    print(f"{total:.1f} s in all; phases: {', '.join(f'{name} {seconds:.1f}' for name, seconds in phases.items())}")
    shown = ", ".join(f"GPU {gpu} {used / GIB:.1f} GiB" for gpu, used in sorted(peak.gpus.items()))
    print(f"peak: main memory {peak.main / GIB:.1f} GiB; arrays of rank 0 {backend.peak_bytes / GIB:.1f} GiB; {shown}")


if __name__ == "__main__":
    main()
