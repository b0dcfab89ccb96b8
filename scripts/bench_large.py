"""Training on tens of millions of splats, on one or several GPUs: time and memory, from the file to the last step.

  python scripts/bench_large.py --splats 100000000 --gpus 2 --folder /tmp/large

Makes a room of that many splats (a PLY of SH degree 0, 68 bytes a splat), of which each of 8 photographs of noise shows
about 30 %, and runs `splat train --init-from` on it without density control. The result is saved with --save only: as a
PLY of degree 3 it has 248 bytes a splat.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

import click
import numpy as np
import psutil
from bench_scale import room, views_inside
from PIL import Image as Picture

from splat_cli.config.presets import load_config
from splat_cli.console import Display, Progress
from splat_cli.device import num_cores
from splat_cli.gaussians.ply import ply_bytes, splat_header, splat_rows
from splat_cli.run.device import open_device
from splat_cli.run.run_writer import RunWriter
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.run.train_scene import train_scene
from splat_cli.scene.colmap.model import Camera, Image, Model
from splat_cli.scene.colmap.write import write_model
from splat_cli.scene.quaternion import quat_from_matrix

CHUNK = 1 << 19  # splats made at a time by each thread
NUM_VIEWS, FOCAL = 8, 0.4  # photographs; focal length over the image's width, with which they show 30 % of the splats
GIB = 2**30


def make_splats(path: Path, num: int) -> None:
    """Write a room of `num` splats, a part in each thread."""
    some = room(1, np.random.default_rng(0), sh_degree=0)
    header = splat_header(some, num)
    path.write_bytes(header)
    with path.open("r+b") as file:
        file.truncate(len(header) + ply_bytes(num, 14))
    rows = np.memmap(path, "<f4", "r+", len(header), (num, splat_rows(some).shape[1]))

    def write(first: int) -> None:
        count = min(CHUNK, num - first)
        part = room(count, np.random.default_rng(first), total=num, sh_degree=0)
        rows[first : first + count] = splat_rows(part)

    with ThreadPoolExecutor(num_cores()) as threads:
        list(threads.map(write, range(0, num, CHUNK)))
    rows.flush()


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
    """Keeps the time of each progress report; prints lines as usual."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[tuple[int, float]] = []  # step, seconds

    @contextmanager
    def training(self, num_steps: int, first: int = 0) -> Iterator[Callable[[Progress], None]]:
        """See Display.training."""
        yield lambda progress: self.times.append((progress.step, time.perf_counter()))


class PeakMemory:
    """Main memory of this process and its children, and memory in use on each GPU, looked at twice a second."""

    def __init__(self) -> None:
        self.main, self.gpus = 0, dict[str, int]()
        self._done, self._thread = threading.Event(), threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        this = psutil.Process()
        while not self._done.wait(0.5):
            processes = this, *this.children(recursive=True)
            self.main = max(self.main, sum(map(_private_bytes, processes)))
            for gpu, used in _gpu_memory():
                self.gpus[gpu] = max(self.gpus.get(gpu, 0), used)


def _private_bytes(process: psutil.Process) -> int:
    """Resident bytes without those of mapped files."""
    try:
        memory = process.memory_info()
        return int(memory.rss - memory.shared)
    except psutil.Error:
        return 0


def _gpu_memory() -> list[tuple[str, int]]:
    """Number of each GPU, and bytes in use on it; none without nvidia-smi."""
    command = ["nvidia-smi", "--query-gpu=index,memory.used", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = (line.split(",") for line in told.splitlines() if "," in line)
    return [(index.strip(), int(used) << 20) for index, used in rows]


@click.command()
@click.option("--splats", "num", type=int, required=True)
@click.option("--gpus", default=1)
@click.option("--batch", type=int, help="By default that of --gpus.")
@click.option("--steps", default=20)
@click.option("--size", default="1600x1066", metavar="WIDTHxHEIGHT", help="Of the photographs.")
@click.option("--moments", default="float32")
@click.option("--visible-adam", is_flag=True)
@click.option("--folder", type=Path, required=True, help="Of the scene, which is made if it is missing.")
@click.option("--save", is_flag=True, help="Write the result, too.")
@click.option("--device", default="auto")
def main(
    num: int, gpus: int, batch: int | None, steps: int, size: str, moments: str, visible_adam: bool, folder: Path,
    save: bool, device: str,
) -> None:  # fmt: skip
    """Print seconds of each phase and batch, and the peaks of memory."""
    splats = folder / f"{num}.ply"
    begin = time.perf_counter()
    if not (folder / "sparse").is_dir():
        make_photographs(folder, *map(int, size.split("x")))
    if not splats.is_file():
        make_splats(splats, num)
        print(f"{num:,} splats, {splats.stat().st_size / GIB:.1f} GiB: made in {time.perf_counter() - begin:.1f} s")
    config = load_config(None, {
        "steps": steps, "gpus": gpus, "batch": batch, "moments": moments, "visible_adam": visible_adam,
        "init_from": str(splats), "max_splats": num, "splat_budget": 0.0, "densify_start": 1_000_000,
        "coarse_until": 0.0, "keep": 0, "save_at": (), "report": False,
    })  # fmt: skip
    display = Timed()
    backend = open_device(device, config, display)
    without_result: AbstractContextManager[object] = nullcontext() if save else patch.object(RunWriter, "write")
    with tempfile.TemporaryDirectory(dir=folder) as out, PeakMemory() as peak, without_result:
        begin, run = time.perf_counter(), RunDir(Path(out))
        train_scene(folder, run, config, backend, display)
        total, phases = time.perf_counter() - begin, run.log_lines()[-1]["phases"]
    report(display.times, begin, config.batch_size)
    print(f"{total:.1f} s in all; phases: {', '.join(f'{name} {seconds:.1f}' for name, seconds in phases.items())}")
    shown = ", ".join(f"GPU {gpu} {used / GIB:.1f} GiB" for gpu, used in sorted(peak.gpus.items()))
    print(f"peak: main memory {peak.main / GIB:.1f} GiB; arrays of rank 0 {backend.peak_bytes / GIB:.1f} GiB; {shown}")


def report(times: list[tuple[int, float]], begin: float, batch: int) -> None:
    """Print seconds up to the first batch, and of each batch after it."""
    print(f"start and first batch: {times[0][1] - begin:.1f} s")
    spans = [
        (later[1] - earlier[1]) / ((later[0] - earlier[0]) / batch)
        for earlier, later in itertools.pairwise(times)
        if later[0] > earlier[0]
    ]
    if spans:
        each = ", ".join(f"{seconds:.3f}" for seconds in spans)
        print(f"seconds a batch of {batch}: {statistics.median(spans):.3f} in the median of {each}")


if __name__ == "__main__":
    main()
