"""Gain from appearances of a colour field. Makes a scene whose photographs differ in exposure and tint.

    \b
    python scripts/bench/tint_scene.py make SCENE OUT [--max-size 800]  # another exposure and tint per photograph
    splat train OUT -o plain --color field --eval
    splat train OUT -o looks --color field --field-appearance 8 --eval
    python scripts/bench/tint_scene.py measure plain looks                 # held-out photographs, right halves

Exposures and tints are factors 2^x of linear light. x is normally distributed, with a deviation of 0.7 for exposures
and of 0.2 per channel for tints.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import click
import numpy as np
from PIL import Image

from splat_cli.device import open_backend
from splat_cli.eval.evaluate import TrainedModel, evaluate
from splat_cli.eval.held_out_fit import half
from splat_cli.eval.metrics import mean_score
from splat_cli.io.image_files import open_image
from splat_cli.render.images import to_8bit
from splat_cli.run.storage.find_run import find_splats
from splat_cli.run.storage.load_run import load_model, load_run_images
from splat_cli.scene.read import read_scene
from splat_cli.terminal.console import Display

EXPOSURE, TINT, GAMMA = 0.7, 0.2, 2.2


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command()
@click.argument("scene", type=Path)
@click.argument("out", type=Path)
@click.option("--max-size", default=1600, help="Pixels of the longer side at most; the cameras fit any size.")
def make(scene: Path, out: Path, max_size: int) -> None:
    rng = np.random.default_rng(0)
    shutil.copytree(scene / "sparse", out / "sparse", dirs_exist_ok=True)
    for view in read_scene(scene).views:
        assert view.path is not None
        image = open_image(view.path).convert("RGB")
        image.thumbnail((max_size, max_size), Image.Resampling.BOX)
        factors = 2 ** (rng.normal(0, EXPOSURE) + rng.normal(0, TINT, 3))
        linear = (np.asarray(image, np.float32) / 255) ** GAMMA
        path = out / "images" / view.name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(to_8bit((linear * factors) ** (1 / GAMMA))).save(path, quality=95)


@main.command()
@click.argument("runs", type=Path, nargs=-1)
@click.option("--device", default="auto")
def measure(runs: tuple[Path, ...], device: str) -> None:
    backend, display = open_backend(device), Display()
    for path in runs:
        ply, run = find_splats(path)
        assert run is not None
        splats, field = load_model(ply, backend)
        photographs = half(load_run_images(run, run.views("test"), None, backend, display), right=True)
        if field and field.shape.appearance:  # always fitted on left halves and measured on right halves
            photographs = load_run_images(run, run.views("test"), None, backend, display)
        model = TrainedModel(splats, field, responses=run.responses())
        scores = evaluate(model, photographs, run.config())
        mean = mean_score(scores.values())
        print(f"{path}: PSNR {mean.psnr:.2f}, SSIM {mean.ssim:.4f} on right halves")


if __name__ == "__main__":
    main()
