"""Kills training at random moments, resumes it, and compares the splats with those of a run that nobody killed.

`python scripts/kill_test.py --kills 50`: a small scene on the CPU with --deterministic; checkpoints are written so
often that many kills fall into one. A killed run is resumed until it ends; the first resumption may be killed as well.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from splat_cli.train.run_folder import RunFolder, is_run

_OPTIONS = [
    "--deterministic", "--device=cpu", "--save-at=", "--densify-start=20", "--densify-interval=20",
    "--checkpoint-every=10", "--noise-scale=1000", "--background=random",
]  # fmt: skip


def main() -> None:
    """Prints a line a trial and exits with 1 where one ended with other splats."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scene", type=Path, help="by default, 9 pictures of 48x36 pixels")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scene = args.scene or _make_scene(Path(folder) / "scene")
        sys.exit(_test(Path(folder), scene, args.kills, args.steps, random.Random(args.seed)))


def _make_scene(folder: Path) -> Path:
    from splat_cli.scene.sample import make_sample_scene

    make_sample_scene(folder, num_views=9, width=48, height=36)
    return folder


def _test(folder: Path, scene: Path, num_kills: int, steps: int, dice: random.Random) -> int:
    expected = _finish(folder / "whole", scene, steps)
    begin = time.perf_counter()  # kernels are compiled by now
    same = _finish(folder / "again", scene, steps) == expected
    seconds = time.perf_counter() - begin
    print(f"the whole run takes {seconds:.1f} s; once more: {'same' if same else 'OTHER'} splats")
    kills = during_write = trials = 0
    different = int(not same)
    while kills < num_kills:
        trials += 1
        run = RunFolder(folder / f"run-{trials}")
        for _ in range(dice.choice((1, 1, 2))):
            if not _start_and_kill(run.path, scene, steps, dice.uniform(0, seconds)):
                break
            kills += 1
            during_write += any(run.path.rglob(".*.part"))
        same = _finish(run.path, scene, steps) == expected
        different += not same
        print(f"kills {kills}: {'same' if same else 'OTHER'} splats", flush=True)
    print(f"{kills} kills, {during_write} while a file was being written, {different} runs with other splats")
    return int(different > 0)


def _start_and_kill(run: Path, scene: Path, steps: int, seconds: float) -> bool:
    """False where the run ended before it could be killed."""
    with subprocess.Popen(_command(run, scene, steps), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return True
    return False


def _finish(run: Path, scene: Path, steps: int) -> bytes:
    """Starts or resumes the run, waits for its end, and returns the last PLY."""
    if not RunFolder(run).result():
        subprocess.run(_command(run, scene, steps), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return RunFolder(run).ply_path(steps).read_bytes()


def _command(run: Path, scene: Path, steps: int) -> list[str]:
    command = [sys.executable, "-m", "splat_cli", "train"]
    if is_run(run):
        return [*command, "--resume", str(run), "--device", "cpu"]
    return [*command, str(scene), "-o", str(run), "--steps", str(steps), "--densify-stop", str(steps // 2), *_OPTIONS]


if __name__ == "__main__":
    main()
