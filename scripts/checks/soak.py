"""Trains a small scene for many steps and measures memory, which must not grow after the first part of the run.

`python scripts/checks/soak.py --steps 200000`: trains like `splat train`, with density control, checkpoints and
the log. Prints the peak memory of each tenth of the run, and exits with 1 if the second half needs
more than the first, without its first tenth.
"""

import argparse
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from splat_cli.config import TrainConfig
from splat_cli.config.presets import load_config
from splat_cli.device import Backend, open_backend
from splat_cli.run.storage.find_run import new_locked_run
from splat_cli.run.train_scene import train_scene
from splat_cli.sample import make_sample_scene
from splat_cli.terminal.console import Display, Progress

_TENTHS = 10
_MIB = 2**20
_TOLERANCE = 2 * _MIB  # less than 11 bytes per step in 200,000 steps


class Use(NamedTuple):
    """Bytes in use: by this process on the host, on the device, in the device's pool. On the CPU only the first."""

    host: int
    device: int
    pool: int


class MemoryWatch(Display):
    """Prints only the maximum memory in use during each tenth of the run."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(io.StringIO())
        self.backend = backend
        self.tenths: list[Use] = []
        print("| step | splats | seconds | host MiB | device MiB | of it pool MiB |\n|" + " --- |" * 6)

    @contextmanager
    def training(self, num_steps: int, first: int = 0) -> Iterator[Callable[[Progress], None]]:
        """Yields the function that reports progress."""
        begin, most = time.perf_counter(), Use(0, 0, 0)

        def watch(progress: Progress) -> None:
            nonlocal most
            most = Use(*map(max, most, memory_in_use(self.backend)))
            if progress.step * _TENTHS >= num_steps * (len(self.tenths) + 1):
                self.tenths.append(most)
                fields = [f"{progress.step}", f"{progress.num_splats}", f"{time.perf_counter() - begin:.0f}"]
                print("| " + " | ".join(fields + [f"{size / _MIB:.2f}" for size in most]) + " |", flush=True)
                most = Use(0, 0, 0)

        yield watch

    def growth(self) -> Use:
        """Bytes that the second half of the run needs more than the first, without its first tenth."""
        half = len(self.tenths) // 2  # in a short run, two tenths may pass between two calls
        early, late = self.tenths[1:half], self.tenths[half:]
        before, after = (map(max, zip(*uses, strict=True)) for uses in (early, late))
        return Use(*(more - less for less, more in zip(before, after, strict=True)))


def memory_in_use(backend: Backend) -> Use:
    """Memory in use; on the host, the resident set of this process."""
    host = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if backend.name == "cpu":
        return Use(host, 0, 0)
    free, total = backend.xp.cuda.runtime.memGetInfo()
    return Use(host, total - free, backend.peak_bytes)


def settings(steps: int) -> TrainConfig:
    """Settings of the run: density control to the end, 60 checkpoints."""
    return load_config(
        None,
        {
            "steps": steps,
            "save_at": (),
            "densify_start": 100,
            "densify_stop": steps,
            "max_splats": 500,
            "noise_scale": 1000.0,
            "checkpoint_every": max(steps // 60, 1),
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    args = parser.parse_args()
    backend = open_backend(args.device, threads=1)  # enough for the small scene
    with tempfile.TemporaryDirectory() as folder:
        scene = Path(folder) / "scene"
        make_sample_scene(scene, num_views=9, width=48, height=36)
        watch = MemoryWatch(backend)
        with new_locked_run(Path(folder) / "run") as run:
            train_scene(scene, run, settings(args.steps), backend, watch)
    growth = watch.growth()
    print("growth in MiB: " + ", ".join(f"{name} {size / _MIB:.2f}" for name, size in growth._asdict().items()))
    sys.exit(int(max(growth) > _TOLERANCE))


if __name__ == "__main__":
    main()
