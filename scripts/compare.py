"""Run presets over scenes and seeds, each in a process of its own, and print one Markdown table. Example:

python scripts/compare.py SCENE [SCENE ...] --presets default,fast --seeds 0,1,2
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

BENCH = Path(__file__).with_name("bench_train.py")


def run(scene: Path, preset: str, seed: int, steps: int | None, device: str) -> dict[str, Any]:
    """What bench_train.py found; raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
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
@click.option("--presets", default="default,fast")
@click.option("--seeds", default="0,1,2")
@click.option("--steps", type=int)
@click.option("--device", default="auto")
def main(scenes: tuple[Path, ...], presets: str, seeds: str, steps: int | None, device: str) -> None:
    print("| scene | preset | PSNR | SSIM | splats | seconds | peak MB |\n|" + " --- |" * 7)
    for scene in scenes:
        for preset in presets.split(","):
            runs = [run(scene, preset, int(seed), steps, device) for seed in seeds.split(",")]
            ends = [result["curve"][-1] for result in runs]
            columns = [
                cell([end["psnr"] for end in ends], 2), cell([end["ssim"] for end in ends], 4),
                cell([end["splats"] for end in ends], 0), cell([end["seconds"] for end in ends], 1),
                cell([result["peak_bytes"] / 1e6 for result in runs], 0),
            ]  # fmt: skip
            print(f"| {scene.name} | {preset} | {' | '.join(columns)} |", flush=True)


if __name__ == "__main__":
    main()
