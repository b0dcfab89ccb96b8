"""Measuring splats on photographs, and the entry of metrics.json that comes of it."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.errors import SceneError, UsageError
from splat_cli.field.color_field import ColorField
from splat_cli.gaussians.ply import read_ply
from splat_cli.gaussians.splats import Splats
from splat_cli.render.error_map import side_by_side
from splat_cli.render.pictures import background_color, png_names, refuse_foreign, save_png, to_8bit
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.images import Photographs
from splat_cli.scene.options import SceneOptions
from splat_cli.scene.read import read_scene
from splat_cli.scene.view import View
from splat_cli.train.evaluation import Score, mean_score, protocol, score
from splat_cli.train.exposure_fit import fitted_to_left_half
from splat_cli.train.flip import has_flip
from splat_cli.train.held_out import half, has_appearances, held_out_coloring
from splat_cli.train.image_memory import all_fit
from splat_cli.train.photographs import load_photographs
from splat_cli.train.progress import Display
from splat_cli.train.run_folder import RunFolder, find_splats, step_of
from splat_cli.train.trained import open_trained


def measure(
    backend: Backend,
    splats: Splats,
    photographs: Photographs,
    config: TrainConfig,
    on_render: Callable[[int, np.ndarray], object] = lambda index, render: None,
    with_flip: bool = False,
    field: ColorField | None = None,
    background: tuple[float, float, float] | None = None,
) -> dict[str, Score]:
    """The score of each photograph's render, by name; background and antialiasing as in training.

    on_render: called with the number and the picture, uint8 [H, W, 3], of every view. field: what colours the splats.
    background: a learned one. Where training knew how photographs look, only right halves are compared.
    """
    background = background or background_color(config.background)
    coloring = held_out_coloring(splats, field, photographs, config, background) if field else None
    if has_appearances(config):
        photographs = half(photographs, right=True)
    renderer = ViewRenderer(backend, splats, photographs.views, config.antialias, coloring)
    scores = {}
    for index, view in enumerate(photographs.views):
        photograph, mask = photographs.images[index], photographs.masks[index]
        if mask is not None and not mask.any():  # broken, as has turned out only now
            continue
        image = renderer.render(index, background)
        rendered = to_8bit(image)
        one = score(rendered, photograph, mask, with_flip)
        if config.exposure:
            fitted = score(*fitted_to_left_half(image, photograph, mask))
            one = dataclasses.replace(one, fitted_psnr=fitted.psnr, fitted_ssim=fitted.ssim)
        scores[view.name] = one
        on_render(index, rendered)
    if not scores:
        raise SceneError("none of the held-out photographs can be used; train without --eval, or correct the files")
    return scores


def add_metrics(
    run: RunFolder, step: int, scores: dict[str, Score], device: str, facts: dict[str, float]
) -> dict[str, Any]:
    """Writes the scores after `step` steps and `facts` into the run's metrics.json; returns the file's content."""
    config = run.config()
    metrics = run.metrics()
    steps = metrics.get("steps", {})
    mean = mean_score(scores.values())
    per_image = {name: one.facts() for name, one in scores.items()}
    steps[str(step)] = {**steps.get(str(step), {}), **mean.facts(), **facts, "per_image": per_image}
    is_named, has_flips = run.split_path.is_file(), mean.flip is not None
    halves = has_appearances(config)
    measured = protocol(
        config.test_every, config.eval, named=is_named, refined=config.pose_opt, with_flip=has_flips,
        fitted=config.exposure, halves=halves,
    )  # fmt: skip
    metrics = {"protocol": measured, "device": device, "steps": steps}
    run.save_metrics(metrics)
    return metrics


@dataclass(frozen=True)
class Evaluation:
    """Scores by photograph and their mean, after `step` steps; `path` is the metrics.json that now holds them."""

    step: int
    scores: dict[str, Score]
    mean: Score
    protocol: str
    path: Path

    def facts(self) -> dict[str, Any]:
        """The same for programs."""
        per_image = {name: one.facts() for name, one in self.scores.items()}
        return {
            "step": self.step, **self.mean.facts(), "protocol": self.protocol, "path": str(self.path),
            "per_image": per_image,
        }  # fmt: skip


def evaluate_run(
    source: Path, scene: Path | None, backend: Backend, display: Display, pictures: Path | None = None
) -> Evaluation:
    """Measures a run's splats (`source`: the run, or a PLY in it) on its held-out photographs; fills metrics.json.

    scene: where the photographs lie now, by default where they were in training. pictures: a folder for a PNG of each
    photograph beside its render and their error map. FLIP is measured where it is installed.
    """
    ply, run = find_splats(source)
    if run is None:
        raise UsageError(f"{source} lies in no run, so there is nothing to compare it with: name the run's folder")
    photographs = photographs_of(run, run.views("test"), scene, backend, display)
    splats, field = (
        open_trained(ply, backend) if source.is_dir() else (Splats.from_arrays(backend, read_ply(ply)), None)
    )
    names = png_names([view.name for view in photographs.views])
    if pictures:
        refuse_foreign(pictures / name for name in names)
    with display.counting("views", len(photographs.views)) as count:

        def on_render(index: int, render: np.ndarray) -> None:
            if pictures:
                compared = side_by_side(render, photographs.images[index], photographs.masks[index])
                save_png(pictures / names[index], compared)
            count(1)

        scores = measure(backend, splats, photographs, run.config(), on_render, has_flip(), field, run.background())
    step = step_of(ply)
    metrics = add_metrics(run, step, scores, backend.describe(), {"num_splats": splats.num})
    return Evaluation(step, scores, mean_score(scores.values()), metrics["protocol"], run.metrics_path)


def photographs_of(
    run: RunFolder, views: Sequence[View], scene: Path | None, backend: Backend, display: Display
) -> Photographs:
    """The photographs of some of the run's views; those that are not in the scene any more are named and left out.

    scene: where it lies now, by default where it was in training. Raises SceneError.
    """
    config, scene_path = run.config(), scene or run.scene_path()
    found = {view.name: view for view in read_scene(scene_path, SceneOptions.of(config)).views}
    present = [_with_photograph(view, found[view.name]) for view in views if view.name in found]
    if not present:
        raise SceneError(f"{scene_path} has none of the run's photographs: give the run's scene with --scene")
    lazily = not all_fit(backend, config, present)
    photographs = load_photographs(present, config, backend, display, lazily)
    gone = [f"{view.name}: not in {scene_path}" for view in views if view.name not in found]
    for line in (*gone, *photographs.skipped):
        display.warn(f"left out {line}")
    return photographs


def _with_photograph(view: View, found: View) -> View:
    """The run's camera, with the scene's photograph."""
    return dataclasses.replace(view, path=found.path, lens=found.lens, mask=found.mask)
