"""`splat city` against one run with as many splats: PSNR near projected borders and elsewhere.

  python scripts/bench/bench_city.py /tmp/city --device cpu
  python scripts/bench/bench_city.py /tmp/city --scene southbuilding --splats 150000 --cell-splats 62000

The single run shows as many photographs as the coarse run, the cells and the last pass together. The folder keeps both
runs, and finished parts are not repeated.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
from PIL import Image, ImageFilter

from splat_cli.commands.city.plan import CityPlan, cell_numbers, read_plan
from splat_cli.device import Backend, open_backend
from splat_cli.gaussians.ply import read_ply
from splat_cli.gaussians.splats import Splats
from splat_cli.render.rendered_maps import render_maps
from splat_cli.render.view import ViewRenderer
from splat_cli.run.storage.load_run import load_run_images
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.sample import make_sample_city
from splat_cli.scene.view import View
from splat_cli.terminal.console import Display

NEAR = 16  # px from a projected border


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--scene", type=click.Path(path_type=Path), help="Scene to train instead of the sample city.")
@click.option("--downscale", default=1, show_default=True)
@click.option("--blocks", type=(int, int), default=(3, 3), show_default=True)
@click.option("--views", default=72, show_default=True)
@click.option("--size", type=(int, int), default=(192, 144), show_default=True)
@click.option("--splats", default=16_000, show_default=True, help="Maximum number of splats of the city.")
@click.option("--cell-splats", default=8_000, show_default=True)
@click.option("--steps", default=1000, show_default=True, help="Steps of the coarse run.")
@click.option("--cell-steps", default=1800, show_default=True)
@click.option("--last-steps", default=2000, show_default=True)
@click.option("--device", default="auto", show_default=True)
@click.option("--cluster", help="As for `splat city`, such as local:2.")
def main(
    folder: Path,
    scene: Path | None,
    downscale: int,
    blocks: tuple[int, int],
    views: int,
    size: tuple[int, int],
    splats: int,
    cell_splats: int,
    steps: int,
    cell_steps: int,
    last_steps: int,
    device: str,
    cluster: str | None,
) -> None:
    """Print the comparison as JSON."""
    common = ["--device", device, "--eval", "--splat-budget", "0", "--downscale", str(downscale)]
    if scene is None:
        scene = folder / "scene"
        common += ["--densify-interval", "50"]
        if not scene.is_dir():
            make_sample_city(scene, blocks, views, *size)
    city = _splat(
        *("city", scene, "-o", folder / "merged"),
        *common,
        *f"--max-splats {splats} --cell-splats {cell_splats} --steps {steps} --cell-steps {cell_steps}".split(),
        *("--last-steps", last_steps),
        *(["--cluster", cluster] if cluster else []),
    )
    plan = read_plan(folder / "merged")
    assert plan is not None
    shown = steps + cell_steps * len(plan.cells) + last_steps
    if not (folder / "single" / "result.json").is_file():
        _splat("train", scene, "-o", folder / "single", *common, "--max-splats", city["num_splats"], "--steps", shown)
    backend = open_backend(device)
    errors = [_errors(RunDir(folder / name), plan, backend) for name in ("single", "merged")]
    (single_near, single_far), (near, far) = errors
    result: dict[str, Any] = {
        "cells": [len(cell.views) for cell in plan.cells],
        "single_steps": shown,
        "seconds": json.loads((folder / "merged" / "seconds.json").read_text()),
        "coarse_psnr": RunDir(folder / "merged" / "coarse").result()["psnr"],
        "single": _measures(RunDir(folder / "single")),
        "merged": _measures(RunDir(folder / "merged")),
        "near_share": round(single_near.size / (single_near.size + single_far.size), 3),
        "lost_near_db": round(_psnr(single_near) - _psnr(near), 3),
        "lost_elsewhere_db": round(_psnr(single_far) - _psnr(far), 3),
    }
    print(json.dumps(result, indent=1))


def _splat(*arguments: object) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "splat_cli", "--json", *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def _measures(run: RunDir) -> dict[str, Any]:
    return {name: run.result()[name] for name in ("num_splats", "psnr", "ssim", "seconds")}


def _errors(run: RunDir, plan: CityPlan, backend: Backend) -> tuple[np.ndarray, np.ndarray]:
    """Squared errors of all held-out pixels within NEAR px of a projected border, and of the others."""
    splats = read_ply(run.ply_path(run.saved_steps()[-1]))
    photographs = load_run_images(run, run.views("test"), None, backend, Display())
    renderer = ViewRenderer(backend, Splats.from_arrays(backend, splats), photographs.views, splats.antialiased)
    parts: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    for index, view in enumerate(photographs.views):
        frame = render_maps(renderer, index, maps=("depth",))
        assert frame.depth is not None
        squared = ((np.clip(frame.color, 0, 1) - photographs.images[index] / 255) ** 2).mean(axis=2)
        near = _near_borders(view, frame.depth, plan)
        for part, mask in zip(parts, (near, ~near), strict=True):
            part.append(squared[mask])
    return np.concatenate(parts[0]), np.concatenate(parts[1])


def _near_borders(view: View, depth: np.ndarray, plan: CityPlan) -> np.ndarray:
    """Pixels [H, W] within NEAR of a border between cells on the visible surface."""
    x, y = np.meshgrid(np.arange(view.width) + 0.5 - view.cx, np.arange(view.height) + 0.5 - view.cy)
    points = np.stack([x / view.fx, y / view.fy, np.ones_like(x)], axis=-1) * depth[..., None]
    world = (points - view.w2c[:3, 3]) @ view.w2c[:3, :3]
    numbers = cell_numbers([one.cell for one in plan.cells], plan.ground(world.reshape(-1, 3))).reshape(depth.shape)
    border = np.zeros(depth.shape, bool)
    border[:, 1:] |= numbers[:, 1:] != numbers[:, :-1]
    border[1:] |= numbers[1:] != numbers[:-1]
    return np.asarray(Image.fromarray(border).convert("L").filter(ImageFilter.MaxFilter(2 * NEAR + 1))) > 0


def _psnr(squared: np.ndarray) -> float:
    return float(-10 * np.log10(squared.mean()))


if __name__ == "__main__":
    main()
