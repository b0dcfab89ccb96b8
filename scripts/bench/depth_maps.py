"""Gain from depth maps with few photographs. Trains on a few views of a scene, without and with depth maps.

Prints a table of held-out PSNR and SSIM for each kind of map and weight:

  python scripts/bench/depth_maps.py SCENE DEPTHS --views 7 --steps 600 --device cpu

DEPTHS: folder of depth maps in world units, as for --depths; the sample scene (SCENE "sample") has exact ones.
none: no maps; points: the scene's points in the loss instead of maps. metric: unchanged maps. relative: inverse
depths with a scale (0.2 to 5) and a shift (0 to half of their median) for each view, like those of monocular networks.
noisy: depths with smooth errors of 5 % (standard deviation) and holes of 30 % of the pixels; noisy relative: both.
The training views are spread evenly over the scene; all others are held out. The scene's points come from all views.
"""

from __future__ import annotations

import dataclasses
import io
import tempfile
from pathlib import Path

import click
import numpy as np
from PIL import Image

from splat_cli.config import TrainConfig
from splat_cli.config.presets import load_config
from splat_cli.device import Backend, ceil_div, open_backend
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.run.train_scene import train_scene
from splat_cli.sample import make_sample_scene
from splat_cli.scene import SceneOptions, read_scene
from splat_cli.scene.depth_maps import read_depths
from splat_cli.scene.view import View, evenly_spread
from splat_cli.terminal.console import Display

NOISE, CELL, HOLES = 0.05, 16, 0.3
KINDS = ("metric", "relative", "noisy", "noisy relative")


def depths_of(view: View, unit: float) -> np.ndarray:
    """World units, float64 [h, w]; 0 for missing depths."""
    assert view.depth is not None
    levels = read_depths(view.depth.path, view.width * view.height)
    return levels * (unit if levels.dtype.kind in "iu" else 1.0)


def changed(depths: np.ndarray, kind: str, rng: np.random.Generator) -> np.ndarray:
    """The map of this kind, float32 [h, w]."""
    if "noisy" in kind:
        height, width = depths.shape
        small = rng.normal(0, NOISE, (ceil_div(height, CELL) + 1, ceil_div(width, CELL) + 1)).astype(np.float32)
        smooth = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
        holes = Image.fromarray(rng.random(small.shape).astype(np.float32)).resize((width, height))
        depths = np.where(
            np.asarray(holes) < np.quantile(np.asarray(holes), HOLES), 0, depths * (1 + np.asarray(smooth))
        )
    if "relative" in kind:
        inverse = np.where(depths > 0, 1 / np.maximum(depths, 1e-9), 0)
        shift = rng.uniform(0, 0.5) * np.median(inverse[inverse > 0])
        depths = np.where(inverse > 0, np.exp(rng.uniform(-1.6, 1.6)) * (inverse + shift), 0)
    return depths.astype(np.float32)


def write_variants(scene: Path, given: str | None, folder: Path, max_size: int | None) -> list[View]:
    """A folder of .npy maps for each kind; returns the scene's views."""
    views = read_scene(scene, SceneOptions(depths=given, max_size=max_size)).views
    rng = np.random.default_rng(0)
    for kind in KINDS:
        for view in views:
            path = (folder / kind / view.name).with_suffix(".npy")
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, changed(depths_of(view, 0.001), kind, rng))
    return views


def scores_of(scene: Path, folder: Path, config: TrainConfig, backend: Backend, seeds: int) -> str:
    """Mean PSNR and SSIM of runs with different seeds, and the PSNR of each, as cells of a table."""
    scores = []
    for seed in range(seeds):
        run = RunDir(Path(tempfile.mkdtemp(dir=folder)))
        config = dataclasses.replace(config, seed=seed)
        score = train_scene(scene, run, config, backend, Display(io.StringIO())).score
        assert score is not None
        scores.append((score.psnr, score.ssim))
    psnr, ssim = np.mean(scores, axis=0)
    return f"{psnr:.2f} ({', '.join(f'{score[0]:.2f}' for score in scores)}) | {ssim:.4f}"


@click.command()
@click.argument("scene")
@click.argument("depths", required=False)
@click.option("--views", "num_views", default=7, help="Number of training views.")
@click.option("--steps", default=600)
@click.option("--seeds", default=3)
@click.option("--weights", default="0.5", help="Weights in the loss, separated by commas.")
@click.option("--kinds", default=",".join(("none", "points", *KINDS)), help="Kinds of maps, rows of the table.")
@click.option("--init", default="auto", help="Initial points: auto, points, sweep or random.")
@click.option("--max-size", type=int, help="Size of photographs, in pixels.")
@click.option("--device", default="auto")
def main(
    scene: str,
    depths: str | None,
    num_views: int,
    steps: int,
    seeds: int,
    weights: str,
    kinds: str,
    init: str,
    max_size: int | None,
    device: str,
) -> None:
    """Print a row for each kind of depth map and each weight."""
    backend = open_backend(device)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        root = Path(scene)
        if scene == "sample":
            root = make_sample_scene(folder / "sample", num_views=24, width=96, height=72, depths=True)
        views = write_variants(root, depths, folder, max_size)
        chosen = {view.name for view in evenly_spread(views, num_views)}
        split = folder / "held_out.txt"
        split.write_text("\n".join(view.name for view in views if view.name not in chosen))
        base = load_config(
            None,
            {
                "steps": steps,
                "eval": True,
                "split": str(split),
                "report": False,
                "max_size": max_size,
                "init": init,
            },
        )
        for kind in kinds.split(","):
            maps = "none" if kind in ("none", "points") else str(folder / kind)
            for weight in (0.0,) if kind == "none" else map(float, weights.split(",")):
                config = dataclasses.replace(base, depth_weight=weight, depths=maps)
                print(f"| {kind} | {weight:g} | {scores_of(root, folder, config, backend, seeds)} |", flush=True)


if __name__ == "__main__":
    main()
