"""Time every pass of a training step, on any device.

`live` trains a scene, with any setting, and pauses at some steps to time the passes on the current splats:

  python scripts/bench/bench_kernels.py live SCENE --at 1000,7000,15000,30000 --set antialias=false

`model` times a plain step on a given number of splats, made from a trained model by splitting or choosing splats:

  python scripts/bench/bench_kernels.py model RUN_OR_PLY --scene SCENE --splats 100000,1000000 --json out.json

Here the time of a pass is the difference of two replays: the captured step up to this pass, and up to the pass before.
With --vs gsplat, compares only the rasterization (no loss, gradients stored, no Adam) with gsplat's;
`live SCENE --vs gsplat` uses the run's own splats, antialiased like the run.

`stages` times the backward pass of the blend in stages, from 3D Gaussian Splatting's to ours, on the splats and views
of finished runs. draw_stages.py draws a chart of the JSON file:

  python scripts/bench/bench_kernels.py stages runs/bonsai runs/plush --json stages.json

All commands run on a CPU, too, except --vs and the stages that use tensor cores.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import time
import tomllib
from pathlib import Path
from typing import Any

import click
import numpy as np
from blend_stages import KERNELS
from live_passes import table
from model_passes import measure, resampled, scaled
from stage_passes import launch_stages, measure_stages, stage_table
from timing import copy_bandwidth

from splat_cli.config.presets import load_config
from splat_cli.device import open_backend
from splat_cli.gaussians.ply import read_ply
from splat_cli.run.setup.initial_state import build_trainer_from_data
from splat_cli.run.setup.training_data import read_data
from splat_cli.run.storage.find_run import find_splats, open_run
from splat_cli.scene.read import read_scene
from splat_cli.scene.view import evenly_spread
from splat_cli.terminal.console import Display, Level
from splat_cli.train.trainer import Trainer


def beside_gsplat(trainer: Trainer, num_views: int = 8) -> dict[str, Any]:
    """Rasterize the trainer's splats in some of its views, and compare with gsplat."""
    import vs_gsplat  # in this folder; optional, needs torch

    views = evenly_spread(trainer.cameras.current_views, num_views)
    return vs_gsplat.versus(trainer.backend, trainer.splats.to_arrays(), views, trainer.config.antialias)


@click.group()
def main() -> None:
    pass


@main.command()
@click.argument("scene", type=Path)
@click.option("--at", "stages", default="1000,7000,15000,30000", help="Steps of training at which passes are timed.")
@click.option("--steps", "num_steps", default=64, help="Number of steps to time at each.")
@click.option("--preset", help="A preset's name, or the path of a TOML file.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting, its value as in TOML.")
@click.option("--matrix-sums/--no-matrix-sums", default=True, help="Sum gradients in blend_backward by tensor cores.")
@click.option("--vs", "other", type=click.Choice(["gsplat"]), help="Also time another rasterizer on the same splats.")
@click.option("--device", default="auto")
@click.option("--out", "file", type=Path, help="File for the tables, in addition to standard output.")
def live(
    scene: Path,
    stages: str,
    num_steps: int,
    preset: str | None,
    settings: tuple[str, ...],
    matrix_sums: bool,
    other: str | None,
    device: str,
    file: Path | None,
) -> None:
    """Passes of a trainer while it trains SCENE."""
    backend, stops = open_backend(device), sorted(map(int, stages.split(",")))
    overrides = tomllib.loads("\n".join(settings))
    config = load_config(preset, {"steps": stops[-1], **overrides})
    bandwidth, display = copy_bandwidth(backend), Display(level=Level.QUIET)
    trainer = build_trainer_from_data(read_data(scene, config, backend, display), config, backend, display)
    raster = trainer.rasterizer
    raster.settings = dataclasses.replace(raster.settings, matrix_sums=matrix_sums)
    if trainer.images.stream:
        raise click.ClickException("the photographs do not fit on the device at once: use --set downscale=2")
    lines = [f"{backend.describe()}, copy {bandwidth:.0f} GB/s; {scene}, preset {preset}, {' '.join(settings)}\n"]
    print(lines[0], flush=True)
    for stop in stops:
        begin, done, before = time.perf_counter(), trainer.step, trainer.timer.seconds
        trainer.run_until(min(stop, trainer.config.steps))
        seconds, phases = time.perf_counter() - begin, trainer.timer.seconds
        spent = ", ".join(f"{name} {phases[name] - before.get(name, 0):.1f} s" for name in phases)
        trained = f"Trained from step {done} to {trainer.step} in {seconds:.1f} s ({spent})."
        lines.append(f"{trained}\n\n{table(trainer, num_steps, bandwidth)}")
        print(lines[-1], flush=True)
        if other:
            lines.append(json.dumps(beside_gsplat(trainer)))
    if file:
        file.write_text("\n".join(lines))


@main.command()
@click.argument("source", type=Path)
@click.option("--scene", type=Path, required=True, help="Scene whose cameras are used.")
@click.option("--splats", "counts", default="100000,250000,1000000,4000000")
@click.option("--scale", "scales", default="1,2", help="Multiples of the photographs' size.")
@click.option("--views", "num_views", default=8)
@click.option("--device", default="auto")
@click.option(
    "--vs", "other", type=click.Choice(["gsplat"]), help="Compare with another rasterizer instead of timing each pass."
)
@click.option("--json", "file", type=Path)
def model(
    source: Path,
    scene: Path,
    counts: str,
    scales: str,
    num_views: int,
    device: str,
    other: str | None,
    file: Path | None,
) -> None:
    """Passes of a plain step, on splats made from SOURCE, a run or a PLY file."""
    backend = open_backend(device)
    arrays = read_ply(find_splats(source)[0])
    every = read_scene(scene).views
    views = every[:: max(1, len(every) // num_views)][:num_views]
    print(f"{backend.describe()}; Python {platform.python_version()}; copy {copy_bandwidth(backend):.0f} GB/s")
    results = []
    for scale in map(float, scales.split(",")):
        sized = [scaled(view, scale) for view in views]
        for count in map(int, counts.split(",")):
            some = resampled(backend, arrays, count, np.random.default_rng(0))
            if other:
                import vs_gsplat  # in this folder; optional, needs torch

                results.append(vs_gsplat.versus(backend, some, sized))
            else:
                results.append(measure(backend, some, sized))
    if file:
        file.write_text(json.dumps({"device": backend.describe(), "results": results}, indent=1))


@main.command()
@click.argument("runs", nargs=-1, required=True, type=Path)
@click.option("--views", "num_views", default=8, show_default=True, help="Number of views of each run, evenly spread.")
@click.option("--once", is_flag=True, help="Only launch each stage once, in one view, for a profiler.")
@click.option("--device", default="auto")
@click.option("--json", "file", type=Path)
def stages(runs: tuple[Path, ...], num_views: int, once: bool, device: str, file: Path | None) -> None:
    """Backward pass of the blend in stages, on the splats of RUNS."""
    backend = open_backend(device, sources=KERNELS)
    bandwidth, results = copy_bandwidth(backend), []
    print(f"{backend.describe()}; copy {bandwidth:.0f} GB/s")
    for path in runs:
        run = open_run(path)
        arrays, views = read_ply(find_splats(path)[0]), evenly_spread(run.views("all"), num_views)
        if once:
            launch_stages(backend, arrays, views[0], run.config().antialias)
            continue
        result = measure_stages(backend, arrays, views, run.config().antialias)
        results.append({"run": path.resolve().name, **result})
        print(f"\n{path}: {stage_table(result, bandwidth)}", flush=True)
    if file:
        file.write_text(
            json.dumps({"device": backend.describe(), "copy_gb_per_s": bandwidth, "runs": results}, indent=1)
        )


if __name__ == "__main__":
    main()
