"""Rank 0 of several: it holds all splats and controls their density, while all ranks train their shares.

Between two rounds of density control, its copy of the others' splats is out of date until `collect`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from splat_cli.config import ResolvedConfig
from splat_cli.data.training_images import TrainingImages
from splat_cli.device import DeviceArray
from splat_cli.ranks.agreement import all_or_none, fatal_out_of_memory
from splat_cli.ranks.protocol import Ranks
from splat_cli.ranks.share import Share
from splat_cli.terminal.phase_timer import PhaseTimer
from splat_cli.train.ranked.ranked_scores import OwnViews, RankedScorer
from splat_cli.train.ranked.ranked_step import RankedStep
from splat_cli.train.ranked.ranked_views import RankedViews
from splat_cli.train.ranked.shares import ChangedSplats, ShareBuffers
from splat_cli.train.step import BatchStep, StepLoop
from splat_cli.train.training_inputs import TrainingInputs


class RankParts:
    """Views, scorer and step loop of a rank's trainer. lead: see RankedScorer. overlap: see OwnViews."""

    def __init__(
        self,
        ranks: Ranks,
        share: Share,
        step: BatchStep,
        images: TrainingImages,
        timer: PhaseTimer,
        rng: np.random.Generator,
        lead: Callable[[np.ndarray], object],
        overlap: Callable[[], object],
    ) -> None:
        self.step, self.views = step, RankedViews(ranks, share, step)
        self.scorer = RankedScorer(step, OwnViews(self.views, images, overlap), rng, ranks, lead)
        graph = RankedStep(step, self.views)
        self.loop = StepLoop(graph, step.state, self.views, images.stream, timer, step.batch)


class Leader:
    """The Sharding of rank 0. Its methods send commands, which Follower.follow executes on the other ranks.

    config, inputs: sent first to the other ranks, which build their trainers from them.
    """

    parts: RankParts

    def __init__(self, ranks: Ranks, config: ResolvedConfig, inputs: TrainingInputs) -> None:
        self.ranks, self.share = ranks, Share(ranks.rank, ranks.size)
        self._is_collected = True  # rank 0 has the splats that the others trained
        self._num_scattered = -1  # number of splats whose shares the others have; -1: shares are out of date
        self._buffers: ShareBuffers | None = None  # for a collection concurrent with scores
        self._is_arriving = False  # whether that collection is queued
        points = inputs.points if config.free_space > 0 else None
        ranks.broadcast("train", config, inputs.images.views, inputs.budget, points)

    def connect(
        self, step: BatchStep, images: TrainingImages, timer: PhaseTimer, rng: np.random.Generator
    ) -> tuple[RankedScorer, StepLoop]:
        """See Sharding.connect."""
        lead, overlap = self._lead_scores, self._receive_shares
        self.parts = RankParts(self.ranks, self.share, step, images, timer, rng, lead, overlap)
        return self.parts.scorer, self.parts.loop

    def run_until(self, step: int) -> None:
        """See Sharding.run_until."""
        if self._num_scattered < 0:
            self.scatter()
        self.parts.views.allocate()
        self.ranks.broadcast("run", step)
        self._is_collected = False
        with fatal_out_of_memory(self.ranks):
            self.parts.loop.run_until(step)
        self.check()

    def check(self) -> None:
        """See Sharding.check."""
        self.ranks.check()

    def collect(self) -> None:
        """See Sharding.collect."""
        if self._is_collected:
            return
        step = self.parts.step
        if self._is_arriving:
            self.ranks.end_exchanges()
        else:
            self._buffers = ShareBuffers(self.ranks, step.model)  # before the others send: may raise MemoryError
            self.ranks.broadcast("collect")
            self._buffers.receive()
        assert self._buffers is not None
        skipped = self._buffers.skipped_updates() + int(step.state.read()["skipped_updates"])
        step.state.write(skipped_updates=skipped)
        self._buffers, self._is_arriving, self._is_collected = None, False, True

    def begin_round(self, num_score_views: int) -> None:
        """See Sharding.begin_round."""
        if num_score_views and not self._is_collected:
            self.parts.scorer.score_ahead(num_score_views)
        self.collect()

    def replaced(self, changed: Sequence[DeviceArray] | None) -> None:
        """See Sharding.replaced: send the others the changed splats that they own, if these are few."""
        self._is_collected, self._num_scattered = True, -1
        model = self.parts.step.model
        if changed is None or not ChangedSplats.are_few(model, self.ranks.size, count := sum(map(len, changed))):
            return
        self.ranks.broadcast("change", model.num, count)
        if count:
            buffers = all_or_none(self.ranks, model.backend, lambda: ChangedSplats(model, count))
            buffers.send(self.ranks, changed)
        self._num_scattered = model.num

    def begin_constraints(self) -> None:
        """See Sharding.begin_constraints."""
        if self._num_scattered >= 0:
            self.ranks.broadcast("constrain")

    def fit(self) -> None:
        """See Sharding.fit."""
        self.scatter()

    def scatter(self) -> None:
        """Send the others their shares of all splats. SharedMemoryError if a rank has no room for its buffers."""
        self._num_scattered = -1
        step, splats = self.parts.step, self.parts.step.model.splats
        self.ranks.broadcast("scatter", self.parts.loop.step, splats.num, splats.capacity, step.size)
        all_or_none(self.ranks, step.backend, self._buffers_to_scatter).send()
        self._num_scattered = splats.num

    def _buffers_to_scatter(self) -> ShareBuffers:
        self.parts.views.allocate()
        return ShareBuffers(self.ranks, self.parts.step.model)

    def _lead_scores(self, views: np.ndarray) -> None:
        """Make the others score these views; their shares are collected concurrently, if that is due."""
        model = self.parts.step.model
        if self._num_scattered != model.num:  # splats were removed since the last step
            self.scatter()
        if not self._is_collected:
            self._buffers = ShareBuffers(self.ranks, model)
        self.ranks.broadcast("score", views, not self._is_collected)

    def _receive_shares(self) -> None:
        if self._buffers and not self._is_arriving:
            self._is_arriving = True
            with self.ranks.exchange_stream():
                self._buffers.receive()
