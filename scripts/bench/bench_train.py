"""Train on a scene and print the curve of held-out quality over seconds of training.

Seconds are the time of the training loop; loading and the first step (compilation) are listed separately. Example:

  python scripts/bench/bench_train.py SCENE --at 1000,3000,7000,15000,30000 --json out.json
  python scripts/bench/bench_train.py SCENE --set visible_adam=true
"""

from __future__ import annotations

import io
import json
import platform
import time
import tomllib
from pathlib import Path
from typing import Any

import click
import numpy as np

from splat_cli import __version__
from splat_cli.config import TrainConfig
from splat_cli.config.presets import load_config
from splat_cli.device import Backend, open_backend
from splat_cli.eval.evaluate import TrainedModel, evaluate
from splat_cli.eval.metrics import mean_score
from splat_cli.run.setup.initial_state import build_trainer_from_data
from splat_cli.run.setup.training_data import read_data
from splat_cli.terminal.console import Display


def bench(scene: Path, config: TrainConfig, backend: Backend, stops: list[int]) -> dict[str, Any]:
    """Print a row at each stop (steps, seconds, PSNR, SSIM, splats); returns them with start-up time, speed, memory."""
    begin = time.perf_counter()
    data = read_data(scene, config, backend, Display(io.StringIO()))
    if data.held_out is None:
        raise click.UsageError("quality is measured on held-out photographs: the settings must have eval = true")
    trainer = build_trainer_from_data(data, config, backend, Display(io.StringIO()))
    trainer.run_until(1)
    backend.synchronize()
    last = trainer.config.steps
    startup, seconds, rows = time.perf_counter() - begin, 0.0, []
    print("| step | seconds | PSNR | SSIM | splats |\n| --- | --- | --- | --- | --- |")
    for stop in sorted({*(step for step in stops if step < last), last}):
        begin = time.perf_counter()
        trainer.run_until(stop)
        backend.synchronize()
        seconds += time.perf_counter() - begin
        score = mean_score(evaluate(TrainedModel(trainer.splats), data.held_out, config).values())
        row = {
            "step": stop,
            "seconds": round(seconds, 2),
            "psnr": round(score.psnr, 3),
            "ssim": round(score.ssim, 4),
            "splats": trainer.splats.num,
        }
        cells = row["step"], row["seconds"], f"{score.psnr:.2f}", f"{score.ssim:.4f}", row["splats"]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
        rows.append(row)
    return {
        "scene": scene.name,
        "device": backend.describe(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "splat": __version__,
        "startup_seconds": round(startup, 2),
        "steps_per_second": round(last / seconds, 1),
        "peak_bytes": int(backend.peak_bytes),
        "curve": rows,
    }


@click.command()
@click.argument("scene", type=Path)
@click.option("--preset", help="Name of a preset, or a TOML file.")
@click.option("--steps", type=int)
@click.option("--seed", type=int, default=0)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting, its value as in TOML.")
@click.option("--at", default="1000,3000,7000,15000", help="Steps at which to measure, in addition to the last one.")
@click.option("--device", default="auto")
@click.option("--json", "json_path", type=Path)
def main(
    scene: Path,
    preset: str | None,
    steps: int | None,
    seed: int,
    settings: tuple[str, ...],
    at: str,
    device: str,
    json_path: Path | None,
) -> None:
    overrides: dict[str, Any] = {"eval": True, "seed": seed} | ({"steps": steps} if steps else {})
    overrides |= tomllib.loads("\n".join(settings))
    config = load_config(preset, overrides)
    result = bench(scene, config, open_backend(device), [int(step) for step in at.split(",") if step])
    print(
        f"{result['device']}; Python {result['python']}, NumPy {result['numpy']}, splat {result['splat']}; start-up "
        f"{result['startup_seconds']} s, {result['steps_per_second']} steps/s, "
        f"peak {result['peak_bytes'] / 1e6:.0f} MB"
    )
    if json_path:
        json_path.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
