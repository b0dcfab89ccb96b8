"""Trial runs: one to three short trainings on small photographs that choose settings of a run.

All leave out some training photographs and are scored on them; the run itself then trains on all of them. Where poses
are inexact, or few photographs show the background, splats in front of cameras overfit: a penalty on opacity in free
space, half the steps and more dropout are better there, but worse on other scenes. One trial therefore has the penalty
and half as many steps as the other, which trains like the defaults (docs/experiments/validation.md); with fewer than 36
photographs, a quarter, because the other has all steps of a run. Where neither comes close to the photographs, more
steps and splats are better; where fine detail of the photographs is a large part of the error, more splats, and with
36 photographs or more, more steps if it is larger still (docs/experiments/densification.md). Where exposures change
from one camera to the next, splats learn them as view-dependent colours: a third trial fits them
(docs/experiments/appearance.md).
"""

from __future__ import annotations

import dataclasses
import gc
import io
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.errors import OutOfMemory
from splat_cli.eval.evaluate import TrainedModel, evaluate
from splat_cli.eval.metrics import Score
from splat_cli.joint.appearance.exposure import exposure_spread
from splat_cli.run.plan import (
    BUDGET,
    LONG_BATCH,
    LONG_START,
    budget_by_detail,
    default_batch,
    default_steps,
    is_sparse_capture,
    steps_by_detail,
    views_per_point,
)
from splat_cli.run.setup.build_trainer import build_trainer_within_memory
from splat_cli.run.setup.initial_state import find_initial_state
from splat_cli.run.setup.training_data import TrainingData
from splat_cli.run.storage.records import as_options, trial_options
from splat_cli.scene.images.downscale import fine_detail, small_copies, whole_mask
from splat_cli.scene.lens.distortion import Equirectangular
from splat_cli.scene.split import Split
from splat_cli.scene.view import View, evenly_spread
from splat_cli.terminal.console import Display
from splat_cli.terminal.phase_timer import PhaseTimer

VIEWS = (10, 250)  # training photographs: with fewer, one at most is left out; more have never overfitted
COMPARED = 20  # from here on, enough are left out to compare trials; before, one trial measures its error
ENOUGH = 36  # from here on, trials are shorter, and poor scores also choose more steps and splats
LEFT_OUT_EVERY, FIRST_LEFT_OUT = 6, 3
MAX_PIXELS = 80_000  # per photograph; at most a quarter of the original's
SHARE, MIN_STEPS = 1 / 3, 5_000  # steps of the trial without the penalty, relative to the default
PENALTY = 1.0  # --free-space
DROPOUT = 0.3  # with the penalty
POOR, MORE_STEPS, MORE_SPLATS = 0.66, 2, 1.5  # SSIM without the penalty, below which more of both are better
MAX_SPREAD = 0.1  # of exposures, as logarithm, up to which no trial trains them
DETAILED = 8  # photographs whose fine detail is measured
TRIMMED = 1 / 5  # of the photographs: those that gain most SSIM do not count, nor those that lose most


@dataclass(frozen=True)
class Trial:
    """Settings of a trial, and scores of the photographs left out: means, and SSIM of each."""

    steps: int
    free_space: float
    appearance: str
    psnr: float
    ssim: float
    per_view: list[float]


@dataclass(frozen=True)
class Trials:
    """All trials of a run, and the settings chosen by them. width, height: of the first photograph, in pixels."""

    width: int
    height: int
    left_out: list[str]
    trials: list[Trial]
    chosen: dict[str, Any]

    def line(self) -> str:
        """The result in one line of text."""
        scores = ", ".join(
            f"{trial.psnr:.2f} dB / {trial.ssim:.3f} after {trial.steps:,} steps"
            + _with(trial.free_space, trial.appearance)
            for trial in self.trials
        )
        return (
            f"Trials on {self.width}x{self.height}: {scores}; chosen: {as_options(self.chosen)} (--no-trials: defaults)"
        )


def needs_trials(config: TrainConfig, data: TrainingData) -> bool:
    """Whether trials choose settings of the run: no option gives them or makes scores misleading.

    Photographs that are left out have no refined pose and no fitted appearance; spherical ones allow no penalty. Few
    that share few points have defaults of their own.
    """
    (low, high), views = VIEWS, data.training.views
    fitted = config.pose_opt or config.has_appearance or config.color == "field"
    from_splats = config.init_from is not None or config.frozen is not None
    return (
        config.trials
        and config.steps is None
        and config.free_space is None
        and not (fitted or from_splats)
        and (low <= len(views) <= high)
        and not any(isinstance(view.distortion, Equirectangular) for view in views)
        and not is_sparse_capture(len(views), views_per_point(views, data.scene.points))
    )


def choose_settings(
    config: TrainConfig, data: TrainingData, backend: Backend, display: Display
) -> tuple[TrainConfig, Trials | None]:
    """The settings with those that trials choose, and the trials; None if the run needs none or memory runs out."""
    if not needs_trials(config, data):
        return config, None
    try:
        runner = _Runner(config, data, backend, display)
        if runner.start.surface is None:  # free space is unknown
            return config, None
        with runner.measuring_detail():
            trials = runner.run()
    except (MemoryError, OutOfMemory):
        display.warn("no trial runs: out of memory; training uses the defaults")
        return config, None
    display.say(trials.line())
    return dataclasses.replace(config, **trials.chosen), trials


class _Runner:
    """Small photographs, split into those to train on and those left out, and the initial points of all trials."""

    def __init__(self, config: TrainConfig, data: TrainingData, backend: Backend, display: Display) -> None:
        self.backend, self.display = backend, display
        self.originals, self.default = data.training, default_steps(len(data.training.views))
        self.steps, self.few = max(round(SHARE * self.default), MIN_STEPS), len(data.training.views) < ENOUGH
        self.streams = data.budget is not None
        everything = range(len(data.training.views))
        left_out, side = everything[FIRST_LEFT_OUT::LEFT_OUT_EVERY], _longer_side(data.training.views)
        self.left_out = small_copies(data.training, left_out, side, whole_mask)
        rest = small_copies(data.training, [i for i in everything if i not in left_out], side, whole_mask)
        self.size = rest.views[0].width, rest.views[0].height
        self.data = TrainingData(data.scene, rest, None, Split(rest.views, []))
        run = data.plan(config).config  # for the background, photographs are decoded: once, not for each plan
        start = {name: getattr(run, name) for name in ("background", "init_opacity", "init_scale")}
        self.config = dataclasses.replace(config, **start)
        plan = self.data.plan(self._settings(self.steps, 0.0))
        self.start = find_initial_state(data.scene, rest, plan.config, backend, _silent())
        self.detail: Iterable[tuple[float, float]] = ()

    @contextmanager
    def measuring_detail(self) -> Iterator[None]:
        """Context in which threads measure the fine detail of some photographs, while the trials train."""
        images = self.originals.images
        with_detail = evenly_spread(range(len(images)), DETAILED)
        pool = ThreadPoolExecutor()
        try:
            self.detail = pool.map(lambda index: fine_detail(images[index]), with_detail)
            yield
        finally:  # the run itself needs the cores
            pool.shutdown(cancel_futures=True)

    def run(self) -> Trials:
        is_compared = len(self.originals.views) >= COMPARED
        trials, found = self._compared() if is_compared else ([self._trial(self.steps)], {"steps": self.default})
        appearance = trials[-1].appearance
        self._add_detail(found, max(one.psnr for one in trials if one.appearance == appearance))
        chosen = {name: value for name, value in found.items() if getattr(self.config, name) is None}
        if appearance != "none":
            chosen["appearance"] = appearance
        return Trials(*self.size, [view.name for view in self.left_out.views], trials, chosen)

    def _compared(self) -> tuple[list[Trial], dict[str, Any]]:
        """Trials, the last one with the better appearance, and the settings that follow from comparing them."""
        steps = self.default if self.few else self.steps  # few scores are noisy: differences must be larger
        trials = [plain := self._trial(steps)]
        is_free = self.config.gpus == 1 and self.config.appearance is None
        if is_free and exposure_spread(self.data.training, self.data.scene.points) > MAX_SPREAD:
            trials.append(exposed := self._trial(steps, appearance="exposure"))
            plain = exposed if exposed.psnr > plain.psnr else plain
        trials.append(penalized := self._trial(self.steps // 2, PENALTY, plain.appearance))
        found = choose(plain, penalized, self.default, self._batch(plain.appearance))
        if self.few and "free_space" not in found:  # scores are poor because photographs are few
            found = {"steps": self.default}
        return trials, found

    def _batch(self, appearance: str) -> int:
        """Default batch of the run: smaller with exposures, and 1 if few photographs are on the device."""
        if self.streams:
            return 1
        config = dataclasses.replace(self.config, appearance=appearance)
        return default_batch(config, self.default, len(self.originals.views))

    def _add_detail(self, found: dict[str, Any], psnr: float) -> None:
        """More splats in `found` where a trial's error is largely fine detail; with many photographs, more steps."""
        shares = self._shares(psnr)
        if "free_space" not in found and not self.few:
            found["steps"] = steps_by_detail(shares, found["steps"])
        if budget := self._budget(shares, found["steps"]):
            found["splat_budget"] = max(budget, found.get("splat_budget", 0.0))

    def _shares(self, psnr: float) -> list[float]:
        """Shares of fine detail in the error of a trial, for some photographs."""
        error = 10 ** (-psnr / 10)  # of small photographs, which have less noise
        return [detail / (error + noise) for detail, noise in self.detail]

    def _budget(self, shares: Sequence[float], steps: int) -> float | None:
        """splat_budget by these shares; None: the default. steps: of the run."""
        views = self.originals.views
        budget = budget_by_detail(shares, steps, len(views), sum(view.width * view.height for view in views))
        return None if budget is None else round(budget, 2)

    def _trial(self, steps: int, free_space: float = 0.0, appearance: str = "none") -> Trial:
        self.display.say(f"Trial run: {steps:,} steps{_with(free_space, appearance)} at {self.size[0]}x{self.size[1]}")
        try:
            scores = self._scores(self._settings(steps, free_space, appearance))
            psnr, ssim = (float(np.mean([getattr(one, name) for one in scores])) for name in ("psnr", "ssim"))
            return Trial(steps, free_space, appearance, psnr, ssim, [one.ssim for one in scores])
        finally:
            gc.collect()  # cycles with captured graphs keep arrays; their memory serves the next trainer

    def _settings(self, steps: int, free_space: float, appearance: str = "none") -> TrainConfig:
        """Settings of a trial, which starts like the run itself."""
        _, _, noise = LONG_START
        views = len(self.data.training.views)
        config = dataclasses.replace(self.config, appearance=appearance)  # with exposures, batches are smaller
        budget = BUDGET if config.splat_budget is None else config.splat_budget
        return dataclasses.replace(
            config,
            steps=steps,
            splat_budget=budget / 2,  # photographs have at most half the width
            free_space=free_space,
            dropout=DROPOUT if free_space and self.few and config.dropout is None else config.dropout,
            gpus=1,
            batch=default_batch(config, self.default, views) if config.batch is None else config.batch,
            strategy="copies" if config.strategy == "default" else config.strategy,
            noise_scale=noise if config.noise_scale is None else config.noise_scale,
            depth_weight=0.0,
            save_at=None,
        )

    def _scores(self, config: TrainConfig) -> list[Score]:
        plan = self.data.plan(config)
        trainer = build_trainer_within_memory(
            self.backend, plan, self.data, self.start, _silent(), PhaseTimer("training steps")
        )
        steps = trainer.config.steps
        with self.display.training(steps) as show:
            trainer.run_until(steps, show)
        scores = evaluate(TrainedModel(trainer.splats, None, trainer.background), self.left_out, trainer.config)
        return list(scores.values())


def gain(before: Trial, after: Trial) -> float:
    """Trimmed mean of the gains in SSIM of all photographs: a single gain can change by 0.3 from seed to seed."""
    gains = np.sort(np.subtract(after.per_view, before.per_view))
    cut = int(TRIMMED * len(gains))
    return float(gains[cut : len(gains) - cut].mean())


def choose(plain: Trial, penalized: Trial, default: int, batch: int) -> dict[str, Any]:
    """The penalty, half the steps and more dropout, if that trial scores better. default: number of steps.

    Otherwise, more steps and splats if the other trial scores poorly, in larger batches than the default `batch`, up to
    LONG_BATCH: as many updates, from more photographs each (docs/experiments/default_runs.md).
    """
    if gain(plain, penalized) > 0:
        return {"steps": default // 2, "free_space": PENALTY, "dropout": DROPOUT}
    if plain.ssim < POOR:
        larger = {"batch": MORE_STEPS * batch} if 1 < batch < LONG_BATCH else {}
        return {"steps": MORE_STEPS * default, "splat_budget": MORE_SPLATS * BUDGET} | larger
    return {"steps": default}


def _with(free_space: float, appearance: str) -> str:
    """Options of a trial, as text after its number of steps."""
    given = trial_options({"free_space": free_space, "appearance": appearance})
    return f" with {given}" if given else ""


def _longer_side(views: Sequence[View]) -> int:
    """Pixels of the longer side of photographs with half the width or less, of at most MAX_PIXELS."""
    largest = max(views, key=lambda view: view.width * view.height)
    factor = 2
    while largest.width * largest.height > MAX_PIXELS * factor**2:
        factor *= 2
    return max(max(max(view.width, view.height) for view in views) // factor, 16)


def _silent() -> Display:
    """A display that prints nothing: the run itself repeats the same messages."""
    return Display(io.StringIO())
