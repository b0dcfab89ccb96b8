"""Data for the report of a run, finished or not: content of its folder, and views to compare."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.device.host import num_cores
from splat_cli.eval.evaluate import TrainedModel, evaluate, free_space
from splat_cli.eval.metrics import Score, error_map
from splat_cli.field.color_field import ColorField
from splat_cli.gaussians.splats import Splats
from splat_cli.processes.threads import run_in_threads
from splat_cli.report.markup import shown
from splat_cli.run.storage.load_run import load_run_images
from splat_cli.run.storage.run_dir import RunDir, sum_phases
from splat_cli.scene.view import Scene, View, evenly_spread
from splat_cli.terminal.console import Display


@dataclass(frozen=True)
class RunData:
    """A run, read from its files.

    provenance: scene, device and version. figures: log entries of training. warnings: (step, text). phases: seconds by
    phase, over all sessions. metrics: scores by step. trials: content of trials.json. step: the last known step.
    """

    run: RunDir
    config: TrainConfig
    provenance: dict[str, str]
    figures: list[dict[str, Any]]
    warnings: list[tuple[int, str]]
    phases: dict[str, float]
    metrics: dict[int, dict[str, Any]]
    protocol: str
    trials: dict[str, Any]
    step: int
    when: datetime

    @property
    def is_finished(self) -> bool:
        return self.step >= self.config.num_steps

    @property
    def seen(self) -> str:
        """How the evaluated photographs were used: "held out" with --eval, else "trained on"."""
        return "held out" if self.config.eval else "trained on"

    @property
    def measured(self) -> dict[str, Any]:
        """Scores of the last saved splats, which the report shows; empty if they were not evaluated."""
        return self.metrics.get(max(self.run.saved_steps() or self.metrics, default=0), {})


def read_run_data(run: RunDir) -> RunData:
    """Read config.toml, train.jsonl, metrics.json and the names of saved splats."""
    lines = run.log.entries()
    metrics = run.metrics()
    last_written = run.log.path if run.log.path.is_file() else run.config_path
    return RunData(
        run=run,
        config=run.config(),
        provenance=run.provenance(),
        figures=[line for line in lines if "loss" in line],
        warnings=[(line["step"], line["warning"]) for line in lines if "warning" in line],
        phases=sum_phases(lines),
        metrics={int(step): entry for step, entry in metrics.get("steps", {}).items()},
        protocol=metrics.get("protocol", ""),
        trials=run.trials(),
        step=max([line["step"] for line in lines] + run.saved_steps(), default=0),
        when=datetime.fromtimestamp(last_written.stat().st_mtime),
    )


_NUM_VIEWS = 8


@dataclass(frozen=True)
class ComparedView:
    """Pictures of a view as data URLs, and its scores. rank: 1 for the worst of `num_ranked`.

    hidden: share of the dataset's points in view that floaters hide; None if unknown.
    """

    view: View
    score: Score
    render: str
    photograph: str
    error: str
    rank: int
    num_ranked: int
    hidden: float | None = None


def compare_views(
    data: RunData,
    splats: Splats,
    field: ColorField | None,
    backend: Backend,
    scene: Path | Scene | None,
    display: Display,
) -> list[ComparedView]:
    """The worst and the best of the evaluated views, or some views if there are no scores.

    field: colour field of the splats, if any. FLIP is that of `splat eval`, if it was measured: of a picture of one
    megapixel, it takes more than a second. scene: see `load_run_images`. SceneError if the photographs are missing.
    """
    measured = data.measured.get("per_image", {})
    names = sorted(measured, key=lambda name: measured[name]["psnr"])
    views = _chosen(names, {view.name: view for view in data.run.views("all")})
    if not views:
        views = evenly_spread(data.run.views("test" if data.config.eval else "train"), _NUM_VIEWS)
    photographs = load_run_images(data.run, views, scene, backend, display)
    renders: list[np.ndarray] = []
    keep = lambda index, render: renders.append(render)  # noqa: E731
    model = TrainedModel(splats, field, data.run.background(), data.run.responses())
    scores = evaluate(model, photographs, data.config, on_render=keep)
    views, ranks = photographs.views, {name: number for number, name in enumerate(names, 1)}
    hidden = _hidden(data, splats, views, backend, scene)

    def compared(view: View, render: np.ndarray, photograph: np.ndarray, mask: np.ndarray | None) -> ComparedView:
        score = dataclasses.replace(scores[view.name], flip=measured.get(view.name, {}).get("flip"))
        pictures = shown(render), shown(photograph), shown(error_map(render, photograph, mask))
        return ComparedView(view, score, *pictures, ranks.get(view.name, 0), len(names), hidden.get(view.name))

    pairs = zip(views, renders, photographs.images, photographs.masks, strict=True)
    return list(run_in_threads((partial(compared, *pair) for pair in pairs), num_cores()))


def _hidden(
    data: RunData, splats: Splats, views: Sequence[View], backend: Backend, scene: Path | Scene | None
) -> dict[str, float]:
    """Share of the points that floaters hide in each view, if they hide any at all."""
    if not isinstance(scene, Scene) or not data.measured.get("hidden_points"):
        return {}
    found = {view.name: free_space(backend, splats, [view], scene.points, data.config.antialias) for view in views}
    return {name: measured.hidden for name, measured in found.items() if measured}


def _chosen(names: Sequence[str], views: dict[str, View]) -> list[View]:
    """The worst and the best views. names: all, sorted by score."""
    if len(names) > _NUM_VIEWS:
        names = [*names[: _NUM_VIEWS // 2], *names[-_NUM_VIEWS // 2 :]]
    return [views[name] for name in names if name in views]
