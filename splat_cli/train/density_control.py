"""Density control between training steps: rounds of the strategy, removal of non-finite splats, spatial sorting."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from splat_cli.density import make_strategy
from splat_cli.density.operations import hide_unseen, mark_unseen, max_unseen_steps, set_last_seen
from splat_cli.model.columns import partition
from splat_cli.model.model import Model
from splat_cli.train.memory_recovery import ScratchMemory
from splat_cli.train.sharding import Sharding
from splat_cli.train.step import BatchStep
from splat_cli.train.view_scores import ViewScorer

SORT_INTERVAL = 1000  # steps between two spatial sorts, roughly


class DensityControl:
    """Changes the splats after the steps at which the strategy is due. All ranks make the same changes.

    model: the splats of this rank. extent: size of the scene, in world units. rng: generator of all strategies, which
    checkpoints save. num_removed: number of splats removed because their parameters were not finite.
    """

    def __init__(
        self,
        batch_step: BatchStep,
        extent: float,
        scorer: ViewScorer,
        scratch: ScratchMemory,
        rng: np.random.Generator,
        sharding: Sharding,
    ) -> None:
        self.config, self.extent, self.model, self.rng = batch_step.config, extent, batch_step.model, rng
        self._scorer, self._scratch, self._state, self._sharding = scorer, scratch, batch_step.state, sharding
        self.strategy = make_strategy(self.config, extent)
        self.num_removed = 0
        self._max_unseen_steps = max_unseen_steps(self.config, len(batch_step.rasterizer.cameras.views))

    def limit(self, max_splats: int) -> None:
        """Lower the maximum number of splats."""
        self.config = dataclasses.replace(self.config, max_splats=max_splats)
        self.strategy = make_strategy(self.config, self.extent)

    def due(self, step: int) -> bool:
        """Whether a round follows step `step`; no round follows the last step."""
        return step < self.config.steps and self.strategy.due(step)

    def next_pause(self, step: int, last: int) -> int:
        """The first step after `step` at which a round or the constraints of `densify_interval` are due, or `last`."""
        step += 1
        while step < last and step % self.config.densify_interval and not self.strategy.due(step):
            step += 1
        return step

    def sorts(self, step: int) -> bool:
        """Whether the round after step `step` sorts the splats."""
        return step % SORT_INTERVAL < self.config.densify_interval

    def refine(self, step: int, sorts: bool, random: dict[str, Any]) -> None:
        """Run one round. random: state of the generator, the same on all ranks."""
        self.rng.bit_generator.state = random
        sharding, capacity = self._sharding, self._sharding.capacity
        if sharding.total(self.model.expose_nonfinite()):
            with sharding.geometry() as model:
                self.num_removed += model.remove_nonfinite()
            self._state.write(num_splats=sharding.num_splats)
        if self.strategy.tracks_unseen:  # of this rank, before the geometry of all is gathered
            hide_unseen(self.model, step - self._max_unseen_steps)
        with sharding.geometry() as model:
            self._refine_and_mark_placed(step, model)
            if sorts and model is self.model:
                self._scratch.run_or_release(model.sort_spatially)
                if not self._scratch.allocated:
                    raise MemoryError("no room for the buffers of training after a sort")
            elif sorts:
                model.sort_spatially()
        if sharding.capacity != capacity:
            with sharding.all_or_none():
                self._scratch.resize_splats(sharding.capacity)
        self._state.write(num_splats=sharding.num_splats)

    def clear_stats(self, step: int, model: Model | None = None) -> None:
        """Clear the statistics after step `step`; all splats count as seen in that step."""
        model = model or self.model
        model.clear_stats()
        if self.strategy.tracks_unseen:
            model.last_seen[: model.num - model.num_without_moments] = step

    def remove_unseen(self, step: int) -> None:
        """After the last step, remove the splats that no view shows, unless none would remain."""
        if not self.strategy.tracks_unseen:
            return
        with self._sharding.geometry() as model:
            mask = mark_unseen(model, step - self._max_unseen_steps)
            if len(partition(model.backend, mask)[0]) < model.num_trained:
                model.remove(mask)
        self._state.write(num_splats=self._sharding.num_splats)

    def _refine_and_mark_placed(self, step: int, model: Model) -> None:
        """Run a round, which treats hidden splats as dead. The splats that it places count as seen in this step."""
        if not self.strategy.tracks_unseen:
            self.strategy.refine(step, model, self._scorer, self.rng)
            return
        changed = self.strategy.refine(step, model, self._scorer, self.rng)
        if changed is None:  # the strategy does not know which splats it has added
            self.clear_stats(step, model)
            return
        for index in changed:
            set_last_seen(model, index, step)
