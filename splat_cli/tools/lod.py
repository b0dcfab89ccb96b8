"""Levels of detail: repeated halving of the number of splats, with fine-tuning."""

from __future__ import annotations

from collections.abc import Iterator

from splat_cli.console import Display
from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.editing.selection import keep_largest
from splat_cli.render.contribution import contributions
from splat_cli.run.fine_tune import fine_tune
from splat_cli.run.storage.load_images import load_run_images
from splat_cli.run.storage.run_dir import RunDir


def levels_of_detail(
    backend: Backend, run: RunDir, splats: SplatArrays, num_levels: int, steps: int, display: Display
) -> Iterator[SplatArrays]:
    """The run's splats, then successive halves: those that contribute most, fine-tuned for `steps` steps.

    SceneError if the run's photographs are missing.
    """
    yield splats
    if num_levels < 2:
        return
    photographs = load_run_images(run, run.views("train"), None, backend, display)
    for level in range(1, num_levels):
        scores = contributions(backend, splats, photographs.views)
        half = keep_largest(splats, scores, max(1, len(splats) // 2))
        display.say(f"Level {level}: {len(half):,} splats, {steps} steps")
        with display.training(steps) as show:
            splats = fine_tune(backend, half, photographs, run.config(), steps, show)
        yield splats
