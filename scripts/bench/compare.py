"""Train presets on scenes with several seeds, each run in its own process, and print one Markdown table. Example:

\b
python scripts/bench/compare.py SCENE [SCENE ...] --presets default,quality --seeds 0,1,2 --results kept/
python scripts/bench/compare.py SCENE --presets default:steps=7000 --split-by sector --peers peers.json

A preset may have settings (NAME:KEY=VALUE:...). Runs with results in the folder --results are not repeated, so a
comparison can be interrupted and continued. --peers is a JSON file with figures of other programs for the table:
{"scene": {"FastGS": "29.59 / 0.904, 101.6 s"}}. FLIP is measured if the extra `flip` is installed.
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

from splat_cli.eval.metrics import has_flip
from splat_cli.run.storage.run_dir import RunDir, sum_phases


def run(scene: Path, preset: str, seed: int, options: Sequence[str], results: Path) -> dict[str, Any]:
    """The metrics of one `splat train --eval`, which runs unless --results has them. Raises CalledProcessError."""
    name, *changes = preset.split(":")
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in (change.split("=", 1) for change in changes)]
    out = results / f"{'-'.join([scene.name, *preset.split(':'), *(o.strip('-') for o in options), str(seed)])}.json"
    if not out.is_file():
        with tempfile.TemporaryDirectory() as folder:
            train = [sys.executable, "-m", "splat_cli", "train", str(scene), "-o", f"{folder}/run", "--eval"]
            command = [*train, f"--seed={seed}", "--save-at=", "--keep=0", "--no-report", *flags, *options]
            command += [] if name == "default" else ["--preset", name]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            if has_flip():  # only `splat eval` measures it
                command = [sys.executable, "-m", "splat_cli", "eval", f"{folder}/run"]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            steps = json.loads(Path(folder, "run", "metrics.json").read_text())["steps"]
            trials = sum_phases(RunDir(Path(folder, "run")).log.entries())["trial runs"]
        out.write_text(json.dumps(steps[max(steps, key=int)] | {"steps": max(map(int, steps)), "trials": trials}))
    return json.loads(out.read_text())


def cell(runs: list[dict[str, Any]], key: str, digits: int, unit: float = 1) -> str:
    """Mean of one metric, and half the range if there are several runs; empty if it was not measured."""
    values = [run[key] / unit for run in runs if key in run]
    if not values:
        return ""
    text = f"{statistics.fmean(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ± {(max(values) - min(values)) / 2:.{digits}f}"


@click.command(help=__doc__)
@click.argument("scenes", type=Path, nargs=-1, required=True)
@click.option("--presets", default="default,quality", show_default=True)
@click.option("--seeds", default="0,1,2", show_default=True)
@click.option("--split-by", type=click.Choice(["interval", "sector"]), default="interval", show_default=True)
@click.option("--device", default="auto", show_default=True)
@click.option("--results", type=Path, help="Folder that keeps the metrics of each run.")
@click.option("--peers", type=Path, help="JSON file of other programs' figures, by scene and program.")
def main(
    scenes: tuple[Path, ...],
    presets: str,
    seeds: str,
    split_by: str,
    device: str,
    results: Path | None,
    peers: Path | None,
) -> None:
    others = json.loads(peers.read_text()) if peers else {}
    options = [f"--split-by={split_by}", f"--device={device}"]
    with tempfile.TemporaryDirectory() as folder:
        kept = results or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        print("| scene | preset | PSNR | SSIM | FLIP | splats | trials, s | training, s | peak GB |\n|" + " --- |" * 9)
        for scene in scenes:
            for preset in presets.split(","):
                print_row(
                    scene.name, preset, [run(scene, preset, int(seed), options, kept) for seed in seeds.split(",")]
                )
            for program, figures in others.get(scene.name, {}).items():
                print(f"| {scene.name} | {program} | {figures} | | | | | | |", flush=True)


def print_row(scene: str, preset: str, runs: list[dict[str, Any]]) -> None:
    """One row: means over the seeds."""
    columns = [
        cell(runs, "psnr", 2),
        cell(runs, "ssim", 4),
        cell(runs, "flip", 4),
        cell(runs, "num_splats", 0),
        cell(runs, "trials", 1),
        cell(runs, "seconds", 1),
        cell(runs, "peak_bytes", 2, 1e9),
    ]
    print(f"| {scene} | {preset} | {' | '.join(columns)} |", flush=True)


if __name__ == "__main__":
    main()
