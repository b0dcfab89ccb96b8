"""Density control between training steps: rounds of the strategy, removal of non-finite splats, spatial sorting."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from splat_cli.config import ResolvedConfig
from splat_cli.density import make_strategy
from splat_cli.density.unseen import hide_unseen, mark_unseen, max_unseen_steps, restart_clocks
from splat_cli.device import DeviceArray
from splat_cli.model.columns import partition
from splat_cli.model.model import Model
from splat_cli.render.iter_state import IterState
from splat_cli.train.memory_recovery import ScratchMemory
from splat_cli.train.view_scores import ViewScorer

SORT_INTERVAL = 1000  # steps between two spatial sorts, roughly


class DensityControl:
    """Changes the splats of `model` after the steps at which the strategy is due.

    extent: size of the scene, in world units. rng: generator of all strategies, which checkpoints save. num_removed:
    number of splats removed because their parameters were not finite.
    """

    def __init__(
        self,
        config: ResolvedConfig,
        extent: float,
        model: Model,
        scorer: ViewScorer,
        scratch: ScratchMemory,
        state: IterState,
        rng: np.random.Generator,
    ) -> None:
        self.config, self.extent, self.model, self.rng = config, extent, model, rng
        self._scorer, self._scratch, self._state = scorer, scratch, state
        self.strategy = make_strategy(config, extent)
        self.num_removed = 0
        self._max_unseen_steps = max_unseen_steps(config, len(scratch.rasterizer.cameras.views))

    def limit(self, max_splats: int) -> None:
        """Lower the maximum number of splats."""
        self.config = dataclasses.replace(self.config, max_splats=max_splats)
        self.strategy = make_strategy(self.config, self.extent)

    def due(self, step: int) -> bool:
        """Whether a round follows step `step`; no round follows the last step."""
        return step < self.config.steps and self.strategy.due(step)

    def next_pause(self, step: int) -> int:
        """The first step after `step` at which a round or the constraints of `densify_interval` are due."""
        step += 1
        while step % self.config.densify_interval and not self.strategy.due(step):
            step += 1
        return step

    def refine(self, step: int) -> Sequence[DeviceArray] | None:
        """Run one round. Returns the indices of all changed splats, or None, see Strategy.refine."""
        model, capacity = self.model, self.model.splats.capacity
        self.num_removed += (removed := model.remove_nonfinite())
        self._state.write(num_splats=model.num)
        changed = self._refine_and_reuse_unseen(step)
        if is_sorted := step % SORT_INTERVAL < self.config.densify_interval:
            model.sort_spatially()
        if is_resized := model.splats.capacity != capacity:
            self._scratch.resize_splats(model.splats.capacity)
        self._state.write(num_splats=model.num)
        return None if removed or is_sorted or is_resized else changed

    def clear_stats(self, step: int) -> None:
        """Clear the statistics after step `step`; all splats count as seen in that step."""
        self.model.clear_stats()
        if self.strategy.tracks_unseen:
            self.model.last_seen[: self.model.num - self.model.first_moment] = step

    def remove_unseen(self, step: int) -> None:
        """After the last step, remove the splats that no view shows, unless none would remain."""
        if not self.strategy.tracks_unseen:
            return
        mask = mark_unseen(self.model, step - self._max_unseen_steps)
        if len(partition(self.model.backend, mask)[0]) < self.model.num_trained:
            self.model.remove(mask)
            self._state.write(num_splats=self.model.num)

    def _refine_and_reuse_unseen(self, step: int) -> Sequence[DeviceArray] | None:
        """Run a round that treats splats that no view shows as dead. Returns the result of Strategy.refine."""
        if not self.strategy.tracks_unseen:
            return self.strategy.refine(step, self.model, self._scorer, self.rng)
        hidden = hide_unseen(self.model, step - self._max_unseen_steps)
        changed = self.strategy.refine(step, self.model, self._scorer, self.rng)
        if changed is None:  # the strategy does not know which splats it has added
            self.clear_stats(step)
            return None
        for index in changed:
            restart_clocks(self.model, index, step)
        return [*changed, hidden]
