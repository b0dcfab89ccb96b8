"""Implementation of `splat eval`: evaluates a saved run and updates its metrics.json."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.device import Backend
from splat_cli.errors import DiskError, UsageError
from splat_cli.eval.evaluate import TrainedModel, evaluate, free_space_metrics
from splat_cli.eval.metrics import Lpips, Score, mean_score, side_by_side
from splat_cli.gaussians.ply import read_ply
from splat_cli.gaussians.splats import Splats
from splat_cli.io.folder_lock import locked_file
from splat_cli.render.images import png_names, refuse_foreign, save_png
from splat_cli.run.storage.find_run import find_splats, step_of
from splat_cli.run.storage.inputs import changed_inputs
from splat_cli.run.storage.load_run import load_model, load_run_images, read_run_scene
from splat_cli.run.storage.result import updated_metrics
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.terminal.console import Display, first_of


@dataclass(frozen=True)
class Evaluation:
    """Scores by photograph and their mean after `step` steps.

    held_out: whether training did not see the photographs. free_space: see eval/evaluate.py; empty in a scene without
    points. path: metrics.json, which has the scores unless `save_error` or `differs` is set. save_error: why it could
    not be written, for example in the folder of another user's run. differs: how model or photographs differ from those
    of the run, such as "for other photographs".
    """

    step: int
    held_out: bool
    scores: dict[str, Score]
    mean: Score
    protocol: str
    path: Path
    free_space: dict[str, float]
    save_error: DiskError | None = None
    differs: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The scores as JSON."""
        per_image = {name: one.to_dict() for name, one in self.scores.items()}
        return {
            "step": self.step,
            **self.mean.to_dict(),
            **self.free_space,
            "protocol": self.protocol,
            "path": None if self.save_error or self.differs else str(self.path),
            "per_image": per_image,
        }


def evaluate_run(
    source: Path,
    scene: Path | None,
    backend: Backend,
    display: Display,
    *,
    pictures: Path | None = None,
    with_flip: bool = False,
    lpips: str | None = None,
) -> Evaluation:
    """Evaluate a run's splats (`source`: the run or its PLY) on its held-out photographs; updates metrics.json.

    Scores of other photographs, or of a model other than the trained one (`_other_model`), do not update it.

    scene: folder of the photographs, by default as in training. pictures: folder for PNGs of photograph, render and
    error map. with_flip: also FLIP, from the extra `flip`; 1.2 s per megapixel on one core. lpips: also LPIPS
    with this network, from the extra `lpips`.
    """
    ply, run = find_splats(source)
    if run is None:
        raise UsageError(
            f"{source} is not in the folder of a run, which records the photographs: name the run's folder"
        )
    config, step, distance = run.config(), step_of(ply), None if lpips is None else Lpips(lpips)
    now = read_run_scene(run, scene)
    photographs = load_run_images(run, run.views("test"), now, backend, display)
    splats, field = load_model(ply, backend) if source.is_dir() else (Splats.from_arrays(backend, read_ply(ply)), None)
    model = TrainedModel(splats, field, run.background(), run.responses())
    with _pictures(pictures, photographs, display) as on_render:
        scores = evaluate(model, photographs, config, on_render=on_render, with_flip=with_flip, lpips=distance)
    views = {"": photographs.views, "_train": run.views("train")}
    free_space = free_space_metrics(backend, splats, views, now.points, config.antialias)
    extra = {"num_splats": splats.num, **free_space}
    changed = changed_inputs(run, [view for view in now.views if view.name in scores])
    with locked_file(run.metrics_path):  # training may add scores, too
        differs = "for other photographs" if changed else _fewer(run, step, scores) or _other_model(run, source, ply)
        metrics = updated_metrics(run, config, step, scores, backend.describe(), extra, lpips)
        save_error = None if differs else _try_to_save(run, metrics)
    mean, protocol = mean_score(scores.values()), metrics["protocol"]
    return Evaluation(step, config.eval, scores, mean, protocol, run.metrics_path, free_space, save_error, differs)


@contextmanager
def _pictures(
    folder: Path | None, photographs: ImageSet, display: Display
) -> Iterator[Callable[[int, np.ndarray], None]]:
    """A function that counts each render and writes it beside its photograph and the error map, if `folder` is given.

    UsageError if the folder has other programs' files of these names.
    """
    names = png_names([view.name for view in photographs.views])
    if folder:
        refuse_foreign(folder / name for name in names)
    with display.counting("views", len(names)) as count:

        def on_render(index: int, render: np.ndarray) -> None:
            if folder:
                compared = side_by_side(render, photographs.images[index], photographs.masks[index])
                save_png(folder / names[index], compared)
            count(1)

        yield on_render


def _try_to_save(run: RunDir, metrics: dict[str, Any]) -> DiskError | None:
    """Write metrics.json; returns the error if that is impossible."""
    try:
        run.save_metrics(metrics)
    except DiskError as error:
        return error
    return None


def _fewer(run: RunDir, step: int, scores: dict[str, Score]) -> str | None:
    """The photographs that the run's scores after `step` steps include and `scores` lack, in words; None if none."""
    before = run.metrics().get("steps", {}).get(str(step), {}).get("per_image", {})
    lacking = sorted(before.keys() - scores.keys())
    return f"without {first_of(lacking)}" if lacking else None


def _other_model(run: RunDir, source: Path, ply: Path) -> str | None:
    """Text that says how a PLY's model differs from the one trained up to its step; None if it does not."""
    if source.is_file() and run.config().color == "field":
        return "for the splats into which the colour field is baked"
    later = run.stored_later_than(step_of(ply))
    return f"with {later}" if later else None
