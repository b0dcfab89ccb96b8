"""Seconds from a signal to the end of training, while kernels compile and after the first steps. Exit code 1: over 2 s.

`python scripts/bench/interrupt_seconds.py --device cuda`; the default is the CPU. The machine should be idle.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.sample import make_sample_scene

_LIMIT = 2.0  # seconds; docs/checkpoints.md
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Prints a line for each signal and moment; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args()
    slowest = 0.0
    for number in _SIGNALS:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)  # processes would inherit the ignored signal
        for moment in ("compiling", "training"):
            with tempfile.TemporaryDirectory() as folder:
                seconds = _interrupt(Path(folder), args.device, number, compiles=moment == "compiling")
            print(f"{number.name:<8} {moment:<10} {seconds:5.2f} s", flush=True)
            slowest = max(slowest, seconds)
    return int(slowest > _LIMIT)


def _interrupt(folder: Path, device: str, number: signal.Signals, compiles: bool) -> float:
    """Seconds from a signal to the end of a training. compiles: with an empty kernel cache, during compilation."""
    make_sample_scene(folder / "scene", num_views=9, width=48, height=36)
    run, cache = RunDir(folder / "run"), folder / "cache"
    command = [sys.executable, "-m", "splat_cli", "train", str(folder / "scene"), "-o", str(run.path), "--no-report"]
    options = ["--device", device, "--steps=1000000", "--save-at=", "--checkpoint-every=10"]
    empty = {"XDG_CACHE_HOME": str(cache), "CUPY_CACHE_DIR": str(cache / "cupy")} if compiles else {}

    def has_begun() -> bool:
        return any(cache.rglob("*")) if compiles else bool(checkpoint_paths(run.checkpoints_path))

    with subprocess.Popen([*command, *options], env={**os.environ, **empty}, stderr=subprocess.DEVNULL) as process:
        while not has_begun() and process.poll() is None:
            time.sleep(0.01)
        begin = time.perf_counter()
        process.send_signal(number)
        if process.wait() != 128 + number:
            raise RuntimeError(f"exit code {process.returncode}, expected {128 + number}")
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main())
