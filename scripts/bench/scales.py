"""PSNR of splats seen from nearer and farther than in training, as a table in dB:

  python scripts/bench/scales.py SCENE --preset demo --device cpu

Splats are trained at half the size of the scene's photographs. Renders are compared with held-out photographs at a
quarter of the size (as from twice as far), at half, and at full size (as from half as far). The rows are splats trained
at half the size, without and with the 3D filter, and splats trained at the size of the render. A render has one sample
per pixel, or as many as `splat render` takes. Photographs at the training size have limited detail. For comparison, the
last rows enlarge these photographs, and renders at this size of splats that were trained at full size.
`python scripts/bench/scales.py --make-sample DIR` makes the sample scene at 384x288 for this.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
from PIL import Image

from splat_cli.config import TrainConfig
from splat_cli.config.presets import load_config
from splat_cli.device import Backend, open_backend
from splat_cli.eval.metrics import psnr
from splat_cli.render.images import background_color, to_8bit
from splat_cli.render.output.render_sequence import coarser, finer, samples_as_fine
from splat_cli.render.rendered_maps import render_maps
from splat_cli.render.view import ViewRenderer
from splat_cli.run.setup.initial_state import build_trainer_from_data
from splat_cli.run.setup.training_data import TrainingData, read_data
from splat_cli.sample import make_sample_scene
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.terminal.console import Display
from splat_cli.train.trainer import Trainer

TRAINED_AT = "same"
SIZES = {"half": 4, TRAINED_AT: 2, "twice": 1}  # divisors of the photographs' size


def train(data: TrainingData, config: TrainConfig, backend: Backend) -> Trainer:
    trainer = build_trainer_from_data(data, config, backend, Display(io.StringIO()))
    trainer.run_until(trainer.config.steps)
    return trainer


def renders(trainer: Trainer, photographs: ImageSet, samples: int) -> list[np.ndarray]:
    """Renders of each photograph's view, uint8 [H, W, 3], with this many samples across a pixel."""
    views = [finer(view, samples) for view in photographs.views]
    renderer = ViewRenderer(trainer.backend, trainer.splats, views, trainer.config.antialias)
    background = background_color(trainer.config.background)
    frames = (render_maps(renderer, index, background) for index in range(len(views)))
    return [to_8bit(coarser(frame, samples).color) for frame in frames]


def enlarged(pictures: Sequence[np.ndarray], like: ImageSet) -> list[np.ndarray]:
    sizes = [photograph.shape[1::-1] for photograph in like.images]
    pairs = zip(map(Image.fromarray, pictures), sizes, strict=True)
    return [np.asarray(picture.resize(size, Image.Resampling.LANCZOS)) for picture, size in pairs]


def mean_psnr(pictures: list[np.ndarray], photographs: ImageSet) -> str:
    """PSNR on the held-out photographs in dB, over unmasked pixels."""
    kept = [slice(None) if mask is None else mask > 0 for mask in photographs.masks]
    pairs = zip(pictures, photographs.images, kept, strict=True)
    return f"{np.mean([psnr(picture[where], image[where]) for picture, image, where in pairs]):.2f}"


@click.command()
@click.argument("scene", type=Path)
@click.option("--make-sample", is_flag=True, help="Only make the sample scene in SCENE.")
@click.option("--preset", help="Name of a preset, or a TOML file.")
@click.option("--steps", type=int)
@click.option("--shrink", type=int, default=1, show_default=True, help="Take the photographs at 1/N of their size.")
@click.option("--filters", default="0", show_default=True, help="Values of --smooth-3d to try.")
@click.option("--only-filters", is_flag=True, help="Do not train at the other sizes.")
@click.option("--device", default="auto")
def main(
    scene: Path,
    make_sample: bool,
    preset: str | None,
    steps: int | None,
    shrink: int,
    filters: str,
    only_filters: bool,
    device: str,
) -> None:
    if make_sample:
        make_sample_scene(scene, width=384, height=288)
        return
    config = load_config(preset, {"eval": True} | ({"steps": steps} if steps else {}))
    backend, display = open_backend(device), Display(io.StringIO())
    shrunk = {name: dataclasses.replace(config, downscale=divisor * shrink) for name, divisor in SIZES.items()}
    data = {name: read_data(scene, one, backend, display) for name, one in shrunk.items()}
    held_out = {name: one.held_out for name, one in data.items() if one.held_out is not None}
    trained = data[TRAINED_AT].training.views
    samples = {name: samples_as_fine(photographs.views, trained) for name, photographs in held_out.items()}
    sizes = [f"{name}, {one.views[0].width}x{one.views[0].height}" for name, one in held_out.items()]
    print(f"| splats | {' | '.join(sizes)} |\n|" + " --- |" * 4)

    def line(name: str, pictures: dict[str, list[np.ndarray]]) -> None:
        cells = [mean_psnr(pictures[size], held_out[size]) if size in pictures else "" for size in SIZES]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)

    for variance in map(float, filters.split(",")):
        trainer = train(data[TRAINED_AT], dataclasses.replace(config, smooth_3d=variance), backend)
        name = f"trained at {TRAINED_AT} size" + (f", 3D filter of {variance:g}" if variance else "")
        line(f"{name}, one sample a pixel", {size: renders(trainer, held_out[size], 1) for size in SIZES})
        line(f"{name}, as rendered", {size: renders(trainer, held_out[size], samples[size]) for size in SIZES})
    if not only_filters:
        own = {size: train(data[size], config, backend) for size in SIZES}
        line("trained at that size", {size: renders(trainer, held_out[size], 1) for size, trainer in own.items()})
        best = renders(own["twice"], held_out[TRAINED_AT], samples=1)
        line("trained at twice the size, rendered at the same, enlarged", {"twice": enlarged(best, held_out["twice"])})
    photographs = held_out[TRAINED_AT].images
    line("photographs of the same size, enlarged", {"twice": enlarged(photographs, held_out["twice"])})


if __name__ == "__main__":
    main()
