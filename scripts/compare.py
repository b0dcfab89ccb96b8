"""Run presets over scenes and seeds, each in a process of its own, and print one Markdown table. Example:

python scripts/compare.py SCENE [SCENE ...] --presets default,quality --seeds 0,1,2
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

BENCH = Path(__file__).with_name("bench_train.py")


def run(scene: Path, preset: str, seed: int, steps: int | None, device: str, results: Path) -> dict[str, Any]:
    """What bench_train.py found, now or earlier; raises CalledProcessError."""
    out = results / f"{scene.name}-{preset}-{seed}.json"
    if not out.is_file():
        options = ["--preset", preset, "--seed", str(seed), "--at", "", "--device", device, "--json", str(out)]
        options += ["--steps", str(steps)] if steps else []
        subprocess.run([sys.executable, str(BENCH), str(scene), *options], check=True, stdout=subprocess.DEVNULL)
    return json.loads(out.read_text())


def cell(values: list[float], digits: int) -> str:
    """Mean, and half the range where there are several."""
    text = f"{statistics.fmean(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ± {(max(values) - min(values)) / 2:.{digits}f}"


@click.command()
@click.argument("scenes", type=Path, nargs=-1, required=True)
@click.option("--presets", default="default,quality")
@click.option("--seeds", default="0,1,2")
@click.option("--steps", type=int)
@click.option("--device", default="auto")
@click.option("--results", type=Path, help="Folder that keeps each run's figures; runs that it holds are not repeated.")
def main(
    scenes: tuple[Path, ...], presets: str, seeds: str, steps: int | None, device: str, results: Path | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kept = results or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        print_table(scenes, presets.split(","), seeds.split(","), steps, device, kept)


def print_table(
    scenes: Sequence[Path], presets: list[str], seeds: list[str], steps: int | None, device: str, results: Path
) -> None:
    print("| scene | preset | PSNR | SSIM | splats | seconds | peak MB |\n|" + " --- |" * 7)
    for scene in scenes:
        for preset in presets:
            runs = [run(scene, preset, int(seed), steps, device, results) for seed in seeds]
            ends = [result["curve"][-1] for result in runs]
            columns = [
                cell([end["psnr"] for end in ends], 2), cell([end["ssim"] for end in ends], 4),
                cell([end["splats"] for end in ends], 0), cell([end["seconds"] for end in ends], 1),
                cell([result["peak_bytes"] / 1e6 for result in runs], 0),
            ]  # fmt: skip
            print(f"| {scene.name} | {preset} | {' | '.join(columns)} |", flush=True)


if __name__ == "__main__":
    main()
