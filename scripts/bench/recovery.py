"""Quality that --pose-opt, --appearance and --robust recover on disturbed photographs. Prints a table:

  python scripts/bench/recovery.py poses SCENE --preset demo --device cpu

Three runs: on the original scene, with disturbed training views, and with refinement of the disturbed views.

poses: each training camera is rotated by half a degree about a random axis and shifted by 1 % of the scene's extent in
a random direction. The held-out cameras start at the scene's poses and get the common offset of the refined training
cameras, as in `splat train`: this measures how consistent the poses are, not the position of the whole scene. "Off" is
the mean difference between training cameras and the scene's cameras after the best similarity transform. For "fitted",
only the held-out cameras are refined further, on their photographs and with fixed splats (Lin et al. 2021, "BARF",
sec. 4), in all runs. This is needed because all cameras may rotate together with the splats without changing the loss.

intrinsics: all cameras, also held-out ones, have a focal length 3 % too long and a principal point off by 1 % of it.
The third run refines poses, the fourth poses and intrinsics; the fifth and sixth do the same on the original scene. The
held-out cameras follow as in `splat train`. "% of focal length off" is the final error of the training cameras.
--own-cameras: each training photograph has its own camera with its own errors, 1 to 2 % of the focal length, of either
sign; the held-out cameras are right.

distortion: all photographs, also held-out ones, are distorted by k1 = 0.05, as after undistortion with a wrong
coefficient. The first run knows k1. The third refines poses and intrinsics, the fourth also radial distortion; the
fifth and sixth do the same with known k1. "k1 off" is the final mean error of the training cameras' k1. "px off" is the
error of projection with the final focal length and distortion, in pixels, averaged over the picture. --own-cameras:
each training photograph has its own k1, from 0.025 to 0.05 and of either sign; held-out photographs are not distorted.

exposure: each training photograph gets brighter or darker, by factors from 0.75 to 1.33 that differ by up to 10 %
between channels, and by an offset of up to 5 of 255. vignetting: the same, and each photograph gets darker around its
own centre, by up to 40 % in the corners. camera: all photographs, also held-out ones, are from one camera. It darkens
corners by 45 %, has an S-shaped response and clips at white; exposures vary by 0.5 stops and white balances by 0.15
(standard deviations). colors: no disturbance; the photographs themselves differ in appearance. walkers: each training
photograph has two boxes of noise, half as high as the picture; the third run uses --robust, and a fourth run uses it on
the original scene.
The other disturbances do not change held-out photographs. "Fitted" is measured on their right halves in all three runs,
after the affine change of colour that fits the left half best. --appearance chooses the model of the third run.
"""

from __future__ import annotations

import dataclasses
import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from disturbances import DISTURB, LENSES, disturb, with_distortion, with_own_cameras
from held_out_poses import refined_views

from splat_cli.config import TrainConfig
from splat_cli.config.presets import load_config
from splat_cli.device import Backend, open_backend
from splat_cli.eval.evaluate import TrainedModel, evaluate
from splat_cli.eval.metrics import mean_score
from splat_cli.run.setup.initial_state import build_trainer_from_data
from splat_cli.run.setup.training_data import TrainingData, read_data
from splat_cli.scene.extent import scene_extent
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.poses import similarity_between, views_following
from splat_cli.scene.view import View
from splat_cli.terminal.console import Display
from splat_cli.train.trainer import Trainer


def train(
    what: str, data: TrainingData, disturbed: TrainingData, config: TrainConfig, fit: str, backend: Backend
) -> list[str]:
    """PSNR and SSIM on the held-out photographs, plain and fitted, and errors of the poses, as text."""
    assert disturbed.held_out is not None
    trainer = build_trainer_from_data(disturbed, config, backend, Display(io.StringIO()))
    trainer.run_until(trainer.config.steps)
    final = trainer.joint.refined_views() or disturbed.training.views
    moved = similarity_between(data.training.views, final)
    if what in LENSES:
        views = trainer.refined_views(disturbed.held_out.views)
    else:
        views = views_following(disturbed.held_out.views, data.training.views, final)
    held_out = disturbed.held_out._replace(views=views)
    measured = dataclasses.replace(config, appearance=fit)
    columns = scores(what, trainer, held_out, measured)
    pairs = [(moved.apply(view), other) for view, other in zip(data.training.views, final, strict=True)]
    rotation = np.mean([angle(a, b) for a, b in pairs])
    translation = np.mean([np.linalg.norm(a.center - b.center) for a, b in pairs]) / scene_extent(final)
    focal = np.mean([abs(b.fx / a.fx - 1) for a, b in zip(data.training.views, final, strict=True)])
    pairs = list(zip(data.training.views, final, strict=True))
    distortion = np.mean([abs(b.radial[0] - a.radial[0]) for a, b in pairs])
    lens = np.mean([lens_error(a, b) for a, b in pairs])
    errors = f"{rotation:.3f}", f"{100 * translation:.2f}", f"{100 * focal:.2f}", f"{distortion:.4f}", f"{lens:.2f}"
    return [*columns, *errors]


def scores(what: str, trainer: Trainer, held_out: ImageSet, config: TrainConfig) -> list[str]:
    """PSNR and SSIM on the photographs, plain and fitted."""
    backend, splats, responses = trainer.backend, trainer.splats, trainer.joint.camera_responses()
    score = mean_score(evaluate(TrainedModel(splats, responses=responses), held_out, config).values())
    fitted = score.fitted_psnr, score.fitted_ssim
    if what in ("poses", *LENSES):
        refined = held_out._replace(views=refined_views(backend, splats, held_out, config, trainer.extent))
        best = mean_score(evaluate(TrainedModel(splats), refined, config).values())
        fitted = best.psnr, best.ssim
    return [f"{score.psnr:.2f}", f"{score.ssim:.4f}", f"{fitted[0]:.2f}", f"{fitted[1]:.4f}"]


def angle(a: View, b: View) -> float:
    """Degrees between the axes of two cameras."""
    difference = np.linalg.norm(a.w2c[:3, :3] - b.w2c[:3, :3])  # 2 sqrt(2) sin(angle / 2)
    return float(np.degrees(2 * np.arcsin(min(difference / np.sqrt(8), 1))))


def lens_error(true: View, view: View) -> float:
    """Distance in pixels between projections of the same direction by both lenses, mean over the picture."""
    x, y = np.meshgrid(
        (np.arange(true.width) + 0.5 - true.cx) / true.fx, (np.arange(true.height) + 0.5 - true.cy) / true.fy
    )
    r2 = x**2 + y**2
    scales = [camera.fx * (1 + camera.radial[0] * r2 + camera.radial[1] * r2**2) for camera in (true, view)]
    return float(np.mean(np.abs(scales[0] - scales[1]) * np.sqrt(r2)))


def planned_runs(
    what: str,
    data: TrainingData,
    wrong: TrainingData,
    load: Callable[[dict[str, Any]], TrainConfig],
    refining: dict[str, Any],
) -> dict[str, tuple[TrainingData, TrainConfig]]:
    """Rows of the table: name -> data and settings. load: settings with the changes of `refining`."""
    plain, refined = load({}), load(refining)
    runs = {"as it is": (data, plain), "disturbed": (wrong, plain), "refined": (wrong, refined)}
    if what == "colors":
        del runs["disturbed"]
    if what in LENSES:
        all_refined = load(refining | {f"refine_{what}": True})
        runs[f"refined with {what}"] = wrong, all_refined
        runs |= {"refined as it is": (data, refined), f"refined with {what} as it is": (data, all_refined)}
    if what == "walkers":
        runs["robust as it is"] = data, refined
    return runs


@click.command()
@click.argument("what", type=click.Choice(list(DISTURB)))
@click.argument("scene", type=Path)
@click.option("--preset", help="Name of a preset, or a TOML file.")
@click.option("--steps", type=int)
@click.option("--seed", type=int, default=0)
@click.option("--appearance", type=click.Choice(["exposure", "grid", "camera"]), default="exposure", show_default=True)
@click.option("--downscale", type=int, default=1)
@click.option("--set", "changes", multiple=True, metavar="KEY=NUMBER", help="A setting of the refined run.")
@click.option("--only", help="One of the three runs, by its name in the table.")
@click.option("--own-cameras", is_flag=True, help="A camera for each training photograph.")
@click.option("--device", default="auto")
def main(
    what: str,
    scene: Path,
    preset: str | None,
    steps: int | None,
    seed: int,
    appearance: str,
    downscale: int,
    own_cameras: bool,
    changes: tuple[str, ...],
    only: str | None,
    device: str,
) -> None:
    settings: dict[str, Any] = {"eval": True, "seed": seed, "downscale": downscale} | (
        {"steps": steps} if steps else {}
    )
    config = load_config(preset, settings)
    refining: dict[str, Any] = {
        "poses": {"pose_opt": True},
        "intrinsics": {"pose_opt": True},
        "distortion": {"pose_opt": True, "refine_intrinsics": True},
        "walkers": {"robust": True},
    }.get(what, {"appearance": appearance})
    refining |= {key: float(value) for key, _, value in (change.partition("=") for change in changes)}
    backend = open_backend(device)
    data = read_data(scene, config, backend, Display(io.StringIO()))
    if what == "distortion":
        data = with_distortion(data, own_cameras, seed)
    if own_cameras:
        data = dataclasses.replace(data, training=with_own_cameras(data.training))
    fit = "none" if what in ("poses", *LENSES) else appearance
    wrong = disturb(what, data, seed, own_cameras)
    print(
        f"| {what} | PSNR | SSIM | PSNR fitted | SSIM fitted | degrees off | % of extent off | "
        "% of focal length off | k1 off | px off | s |\n|" + " --- |" * 11
    )
    runs = planned_runs(what, data, wrong, lambda refining: load_config(preset, settings | refining), refining)
    for name, (disturbed, chosen) in runs.items():
        if only in (None, name):
            begin = time.perf_counter()
            columns = train(what, data, disturbed, chosen, fit, backend)
            print(f"| {name} | {' | '.join(columns)} | {time.perf_counter() - begin:.0f} |", flush=True)


if __name__ == "__main__":
    main()
