"""How much of what wrong poses cost does --pose-opt bring back? Prints a Markdown table. Example:

  python scripts/pose_recovery.py SCENE --preset demo --device cpu

Three runs: with the scene's poses, with the training cameras' poses disturbed, and with the disturbed ones refined.
Each training camera is turned about a random axis by `--degrees` and shifted in a random direction by `--share` of the
scene's extent. The held-out cameras keep the scene's poses, moved by the similarity that takes the training cameras
from the scene's poses to those that the run ended with: what is measured is how consistent the poses are, not where the
whole scene lies. The errors of the poses are what is left after the inverse of that similarity.
"""

from __future__ import annotations

import dataclasses
import io
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from splat_cli.config import TrainConfig, load_config
from splat_cli.device import Backend, open_backend
from splat_cli.scene.extent import scene_extent
from splat_cli.scene.poses import moved_pose, similarity_between
from splat_cli.scene.view import View
from splat_cli.train.data import TrainingData, read_data
from splat_cli.train.evaluation import Score, mean_score
from splat_cli.train.measure import measure
from splat_cli.train.progress import Display
from splat_cli.train.trainer import Trainer


def disturbed(views: list[View], degrees: float, share: float, random: np.random.Generator) -> list[View]:
    """Each camera turned by `degrees` and shifted by `share` of the scene's extent, each in a direction of its own."""

    def vector(length: float) -> np.ndarray:
        direction = random.normal(size=3)
        return length * direction / np.linalg.norm(direction)

    shift = share * scene_extent(views)
    offsets = [np.concatenate([vector(np.radians(degrees)), vector(shift)]) for _ in views]
    return [
        dataclasses.replace(view, w2c=moved_pose(view.w2c, offset)) for view, offset in zip(views, offsets, strict=True)
    ]


def train(data: TrainingData, views: list[View], config: TrainConfig, backend: Backend) -> tuple[Score, float, float]:
    """Score on the held-out photographs; mean error of the poses in degrees and in shares of the scene's extent."""
    photos, held_out = data.training, data.held_out
    assert held_out is not None
    trainer = Trainer(backend, views, photos.images, *data.points, config, masks=photos.masks)
    trainer.run_until(config.steps)
    poses = trainer.besides.poses
    final = poses.refined() if poses else views
    moved = similarity_between(photos.views, final)
    held_out = held_out._replace(views=[moved.apply(view) for view in held_out.views])
    score = mean_score(measure(backend, trainer.splats, held_out, config).values())
    ideal = [moved.apply(view) for view in photos.views]
    shift = np.mean([np.linalg.norm(a.center - b.center) for a, b in zip(ideal, final, strict=True)])
    return (
        score,
        float(np.mean([_angle(a, b) for a, b in zip(ideal, final, strict=True)])),
        float(shift / (moved.scale * scene_extent(photos.views))),
    )


def _angle(a: View, b: View) -> float:
    """Degrees between two cameras' axes."""
    difference = np.linalg.norm(a.w2c[:3, :3] - b.w2c[:3, :3])  # 2 sqrt(2) sin(angle / 2)
    return float(np.degrees(2 * np.arcsin(min(difference / np.sqrt(8), 1))))


@click.command()
@click.argument("scene", type=Path)
@click.option("--preset", help="Name of a preset, or a TOML file.")
@click.option("--steps", type=int)
@click.option("--rate", type=float, help="lr_poses of the refined run; lr_poses_final is a hundredth.")
@click.option("--degrees", type=float, default=0.5)
@click.option("--share", type=float, default=0.01)
@click.option("--seed", type=int, default=0)
@click.option("--only", help="One of clean, disturbed, refined.")
@click.option("--device", default="auto")
def main(
    scene: Path, preset: str | None, steps: int | None, rate: float | None, degrees: float, share: float, seed: int,
    only: str | None, device: str,
) -> None:  # fmt: skip
    settings: dict[str, Any] = {"eval": True, "seed": seed} | ({"steps": steps} if steps else {})
    config = load_config(preset, settings)
    rates = {"lr_poses": rate, "lr_poses_final": rate / 100} if rate else {}
    refining = load_config(preset, settings | {"pose_opt": True} | rates)
    backend = open_backend(device)
    data = read_data(scene, config, backend, Display(io.StringIO()))
    wrong = disturbed(data.training.views, degrees, share, np.random.default_rng(seed))
    runs = {"clean": (data.training.views, config), "disturbed": (wrong, config), "refined": (wrong, refining)}
    print("| poses | PSNR | SSIM | degrees off | extents off | seconds |\n|" + " --- |" * 6)
    for name, (views, chosen) in runs.items():
        if only in (None, name):
            begin = time.perf_counter()
            score, turn, shift = train(data, views, chosen, backend)
            row = (f"{score.psnr:.2f}", f"{score.ssim:.4f}", f"{turn:.3f}", f"{shift:.4f}")
            print(f"| {name} | {' | '.join(row)} | {time.perf_counter() - begin:.0f} |", flush=True)


if __name__ == "__main__":
    main()
