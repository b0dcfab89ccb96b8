"""The trainer of rank 0, and the base class of the trainers of all ranks.

Rank 0 holds all splats and controls their density; all ranks train their shares.

Between two rounds of density control, rank 0's copy of the others' splats is out of date until `collect`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from splat_cli.config import ResolvedConfig
from splat_cli.device import Backend, DeviceArray
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.ranks.agreement import all_or_none, fatal_out_of_memory
from splat_cli.ranks.protocol import Ranks
from splat_cli.ranks.share import Share
from splat_cli.train.ranked.ranked_scores import RankedScorer
from splat_cli.train.ranked.ranked_step import RankedStep
from splat_cli.train.ranked.ranked_views import RankedViews
from splat_cli.train.ranked.shares import ChangedSplats, ShareBuffers
from splat_cli.train.step import StepLoop
from splat_cli.train.trainer import Trainer
from splat_cli.train.training_inputs import TrainingInputs


class RankedTrainer(Trainer):
    """Base class of the trainers of all ranks."""

    scorer: RankedScorer

    def __init__(
        self, ranks: Ranks, backend: Backend, config: ResolvedConfig, splats: SplatArrays, inputs: TrainingInputs,
        **options: Any,
    ) -> None:  # fmt: skip
        self.ranks, self.share = ranks, Share(ranks.rank, ranks.size, sharded=ranks.rank > 0)
        super().__init__(backend, config, splats, inputs, **options)

    def _make_scorer(self, rng: np.random.Generator) -> RankedScorer:
        state, batch = self.state, self.config.batch_size
        self.ranked_views = RankedViews(self.ranks, self.share, self.rasterizer, self.model, state, batch)
        return RankedScorer(
            self.ranked_views, self.config, self.loss, self.images.load, rng, lead=self._lead_scores,
            overlap=self._move_shares,
        )  # fmt: skip

    def _lead_scores(self, views: np.ndarray) -> None:
        """On rank 0, make the others score these views."""

    def _move_shares(self) -> None:
        """Queue the collection of shares, if it is due, concurrent with the first views to be scored; on all ranks."""
        raise NotImplementedError

    def _step_loop(self) -> StepLoop:
        graph = RankedStep(self.batch_step, self.ranked_views)
        return StepLoop(graph, self.state, self.ranked_views, self.stream, self.timer, self.config.batch_size)


class LeadingTrainer(RankedTrainer):
    """The trainer of rank 0, with the interface of a trainer on one GPU."""

    def __init__(
        self, ranks: Ranks, backend: Backend, config: ResolvedConfig, splats: SplatArrays, inputs: TrainingInputs,
        **options: Any,
    ) -> None:  # fmt: skip
        self._is_collected = True  # rank 0 has the splats that the others trained
        self._num_scattered = -1  # number of splats of which the others have their shares; -1: they are out of date
        self._buffers: ShareBuffers | None = None  # of a collection concurrent with scores
        self._is_arriving = False  # whether that collection is queued
        points = inputs.points if config.free_space > 0 else None
        ranks.broadcast("train", config, inputs.images.views, inputs.budget, points)
        super().__init__(ranks, backend, config, splats, inputs, **options)

    def collect(self) -> None:
        """See Trainer.collect."""
        if self._is_collected:
            return
        if self._is_arriving:
            self.ranks.end_exchanges()
        else:
            self._buffers = ShareBuffers(self.ranks, self.model)  # may raise MemoryError: before the others send
            self.ranks.broadcast("collect")
            self._buffers.receive()
        assert self._buffers is not None
        skipped = self._buffers.skipped_updates() + int(self.state.read()["skipped_updates"])
        self.state.write(skipped_updates=skipped)
        self._buffers, self._is_arriving, self._is_collected = None, False, True

    def load_planes(self, planes: dict[str, DeviceArray], capacity: int) -> None:
        """See Trainer.load_planes."""
        super().load_planes(planes, capacity)
        self._is_collected, self._num_scattered = True, -1

    def _run_steps(self, target: int) -> None:
        if self._num_scattered < 0:
            self._scatter()
        self.ranked_views.allocate()
        self.ranks.broadcast("run", target)
        self._is_collected = False
        with fatal_out_of_memory(self.ranks):
            super()._run_steps(target)
        self.ranks.check()

    def recover_from_oom(self) -> None:
        """See Trainer.recover_from_oom; after memory ran out on any rank, while no rank executes a step."""
        self.ranks.check()
        self.scratch.release()  # makes room to collect
        self.collect()
        super().recover_from_oom()

    def _fit_others(self) -> None:
        self._scatter()

    def _refine(self) -> Sequence[DeviceArray] | None:
        if not self._is_collected and (num_views := self.density.strategy.num_score_views):
            self.scorer.score_ahead(num_views)
        self.collect()
        changed = super()._refine()
        self._num_scattered = -1
        if changed is not None:
            self._send_changes(changed)
        return changed

    def _remove_unseen(self) -> None:
        self.collect()
        self._num_scattered = -1
        super()._remove_unseen()

    def _constrain(self) -> None:
        if self._num_scattered >= 0 and self.step % self.config.densify_interval == 0:
            self.ranks.broadcast("constrain")
        super()._constrain()

    def _lead_scores(self, views: np.ndarray) -> None:
        if self._num_scattered != self.model.num:  # splats were removed since the last step
            self._scatter()
        if not self._is_collected:
            self._buffers = ShareBuffers(self.ranks, self.model)
        self.ranks.broadcast("score", views, not self._is_collected)

    def _move_shares(self) -> None:
        if self._buffers and not self._is_arriving:
            self._is_arriving = True
            with self.ranks.exchange_stream():
                self._buffers.receive()

    def _scatter(self) -> None:
        """Send the others their shares of all splats. SharedMemoryError if a rank has no room for its buffers."""
        self._num_scattered = -1
        self.ranks.broadcast("scatter", self.step, self.model.num, self.splats.capacity, self.size)
        all_or_none(self.ranks, self.backend, self._buffers_to_scatter).send()
        self._num_scattered = self.model.num

    def _buffers_to_scatter(self) -> ShareBuffers:
        self.ranked_views.allocate()
        return ShareBuffers(self.ranks, self.model)

    def _send_changes(self, indices: Sequence[DeviceArray]) -> None:
        """Send the others those of these splats that they own, if they are few; else they remain out of date."""
        count, model = sum(map(len, indices)), self.model
        if not ChangedSplats.are_few(model, self.ranks.size, count):
            return
        self.ranks.broadcast("change", model.num, count)
        if count:
            all_or_none(self.ranks, self.backend, lambda: ChangedSplats(model, count)).send(self.ranks, indices)
        self._num_scattered = model.num
