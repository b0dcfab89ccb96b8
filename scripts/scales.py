"""How do splats look from nearer and from farther than they were trained? With and without --smooth-3d, as a table:

  python scripts/scales.py SCENE --preset demo --device cpu

Training is at half the size of the scene's photographs. The held-out photographs are compared at half that size again
(as from twice as far), at that size, and whole (as from half as far), with renders of the same size: by splats trained
at half the size, without and with the 3D filter, and by splats that were trained at the size they are rendered at.
`python scripts/scales.py --make-sample DIR` makes the sample scene at 384x288 for it.
"""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import click

from splat_cli.config import TrainConfig
from splat_cli.device import Backend, open_backend
from splat_cli.presets import load_config
from splat_cli.scene.sample import make_sample_scene
from splat_cli.train.data import TrainingData, read_data
from splat_cli.train.evaluation import mean_score
from splat_cli.train.measure import measure
from splat_cli.train.progress import Display
from splat_cli.train.trainer import Trainer

TRAINED_AT = 2  # of these divisors of the photographs' size
SIZES = {4: "half", 2: "same", 1: "twice"}


def train(data: TrainingData, config: TrainConfig, backend: Backend) -> Trainer:
    photos = data.training
    trainer = Trainer(backend, photos.views, photos.images, *data.points, config, masks=photos.masks)
    trainer.run_until(config.steps)
    return trainer


def psnr(trainer: Trainer, data: TrainingData) -> str:
    """Of the held-out photographs, dB."""
    assert data.held_out is not None
    scores = measure(trainer.backend, trainer.splats, data.held_out, trainer.config)
    return f"{mean_score(scores.values()).psnr:.2f}"


@click.command()
@click.argument("scene", type=Path)
@click.option("--make-sample", is_flag=True, help="Make the sample scene in SCENE, and do nothing else.")
@click.option("--preset", help="Name of a preset, or a TOML file.")
@click.option("--steps", type=int)
@click.option("--filters", default="0,0.05,0.2", show_default=True, help="Values of --smooth-3d to try.")
@click.option("--only-filters", is_flag=True, help="Do not train at the other sizes.")
@click.option("--device", default="auto")
def main(
    scene: Path, make_sample: bool, preset: str | None, steps: int | None, filters: str, only_filters: bool, device: str
) -> None:
    if make_sample:
        make_sample_scene(scene, width=384, height=288)
        return
    config = load_config(preset, {"eval": True} | ({"steps": steps} if steps else {}))
    backend, display = open_backend(device), Display(io.StringIO())
    data = {size: read_data(scene, dataclasses.replace(config, downscale=size), backend, display) for size in SIZES}
    print(f"| splats | {' | '.join(f'PSNR at {name} size' for name in SIZES.values())} |\n|" + " --- |" * 4)
    for variance in map(float, filters.split(",")):
        trainer = train(data[TRAINED_AT], dataclasses.replace(config, smooth_3d=variance), backend)
        row = " | ".join(psnr(trainer, data[size]) for size in SIZES)
        print(f"| {f'filter {variance:g}' if variance else 'no filter'} | {row} |", flush=True)
    if only_filters:
        return
    row = " | ".join(psnr(train(data[size], config, backend), data[size]) for size in SIZES)
    print(f"| trained at that size | {row} |")


if __name__ == "__main__":
    main()
