"""Kills training at random moments, resumes it, and compares the splats with those of an uninterrupted run.

`python scripts/checks/kill_test.py --kills 50`: a small scene with --deterministic, on the CPU or with `--device cuda`.
Checkpoints are so frequent that many kills interrupt one. A killed run is resumed until it ends; the first resume may
be killed, too. The --variants differ in settings and in the way photographs are read. With several ranks, a random one
is killed.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from splat_cli.run.storage.find_run import is_run
from splat_cli.run.storage.run_dir import RunDir

_OPTIONS = [
    "--deterministic",
    "--save-at=",
    "--densify-start=20",
    "--densify-interval=20",
    "--checkpoint-every=10",
    "--noise-scale=1000",
    "--background=random",
    "--no-report",
]

_VARIANTS = {
    "plain": [],
    "mcmc": ["--strategy=mcmc"],
    "field": ["--color=field", "--field-table-size=1024"],
    "poses": ["--pose-opt", "--exposure", "--background=learned"],
    "batches": ["--batch=4"],
    "ranks": ["--gpus=2", "--batch=4", "--init=random", "--init-points=9000", "--splat-budget=0", "--max-splats=12000"],
    "streaming": ["--image-memory=3e-5", "--score-views=2"],
}


@dataclass(frozen=True)
class Training:
    """Training arguments of every trial. options: of the variant."""

    scene: Path
    options: list[str]
    steps: int
    device: str

    def start_and_kill(self, run: Path, seconds: float) -> bool:
        """Returns False if the run ended before it could be killed."""
        quiet = subprocess.DEVNULL
        with subprocess.Popen(self._command(run), stdout=quiet, stderr=quiet) as process:
            try:
                process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                ranks = [child for child in psutil.Process(process.pid).children() if _is_rank(child)]
                random.choice([process, *ranks]).kill()
                return True
        return False

    def finish(self, run: Path) -> bytes:
        """Starts or resumes the run, waits for its end, and returns the last PLY."""
        if not RunDir(run).result():
            subprocess.run(self._command(run), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return RunDir(run).ply_path(self.steps).read_bytes()

    def _command(self, run: Path) -> list[str]:
        command = [sys.executable, "-m", "splat_cli", "train", "--device", self.device]
        if is_run(run):
            return [*command, "--resume", str(run)]
        ends = ["--steps", str(self.steps), "--densify-stop", str(self.steps // 2)]
        return [*command, str(self.scene), "-o", str(run), *ends, *_OPTIONS, *self.options]


def _is_rank(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "splat_cli.run.follower" in process.cmdline()
    return False


def main() -> None:
    """Prints kills after which the splats differ, and a summary; exits with 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="number of kills of each variant")
    parser.add_argument("--variants", default="plain", help=f"some of {','.join(_VARIANTS)}, or all")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scene", type=Path, help="by default, 9 photographs of 48x36 pixels")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="cpu")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scene, wrong = args.scene or _make_scene(Path(folder) / "scene"), 0
        for name in _VARIANTS if args.variants == "all" else args.variants.split(","):
            print(f"{name}:", flush=True)
            training = Training(scene, _VARIANTS[name], args.steps, args.device)
            wrong += _test(Path(folder) / name, training, args.kills, random.Random(args.seed))
        sys.exit(int(wrong > 0))


def _make_scene(folder: Path) -> Path:
    from splat_cli.sample import make_sample_scene

    make_sample_scene(folder, num_views=9, width=48, height=36)
    return folder


def _test(folder: Path, training: Training, num_kills: int, dice: random.Random) -> bool:
    """Whether a run ended with different splats."""
    expected = training.finish(folder / "whole")
    begin = time.perf_counter()  # kernels are compiled by now
    same = training.finish(folder / "again") == expected
    seconds = time.perf_counter() - begin
    print(f"the whole run takes {seconds:.1f} s; once more: {'same' if same else 'OTHER'} splats", flush=True)
    kills = during_write = trials = 0
    different = int(not same)
    while kills < num_kills:
        trials += 1
        run = RunDir(folder / f"run-{trials}")
        for _ in range(dice.choice((1, 1, 2))):
            if not training.start_and_kill(run.path, dice.uniform(0, seconds)):
                break
            kills += 1
            during_write += any(run.path.rglob(".*.part"))
        same = training.finish(run.path) == expected
        different += not same
        if not same:
            print(f"kill {kills}: OTHER splats", flush=True)
        shutil.rmtree(run.path)
    print(f"{kills} kills, {during_write} while a file was being written, {different} runs with other splats")
    return different > 0


if __name__ == "__main__":
    main()
