"""Trainers of several ranks. Rank 0 holds all splats and controls their density; all ranks train their shares.

Between two rounds of density control, rank 0's copy of the others' splats is out of date until `collect`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from splat_cli.config import ResolvedConfig
from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.ranks.agreement import SharedMemoryError, all_or_none, others_waiting
from splat_cli.ranks.protocol import RankError, Ranks
from splat_cli.ranks.share import Share
from splat_cli.render.iter_state import IterState
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.train.ranked.exchange import copy_share
from splat_cli.train.ranked.ranked_scores import RankedScorer
from splat_cli.train.ranked.ranked_step import RankedStep
from splat_cli.train.ranked.ranked_views import RankedViews
from splat_cli.train.step_loop import StepLoop
from splat_cli.train.trainer import Trainer
from splat_cli.train.view_scores import ViewScorer


class RankedTrainer(Trainer):
    """What the trainers of all ranks have in common."""

    def __init__(
        self, ranks: Ranks, backend: Backend, config: ResolvedConfig, splats: SplatArrays, images: ImageSet,
        **options: Any,
    ) -> None:  # fmt: skip
        self.ranks, self.share = ranks, Share(ranks.rank, ranks.size, sharded=ranks.rank > 0)
        super().__init__(backend, config, splats, images, **options)

    def _make_scorer(self, *arguments: Any) -> ViewScorer:
        state, batch = self.state, self.config.batch_size
        self.ranked_views = RankedViews(self.ranks, self.share, self.rasterizer, self.model, state, batch)
        return RankedScorer(self.ranked_views, *arguments, lead=self._lead_scores)

    def _lead_scores(self, views: np.ndarray) -> None:
        """On rank 0, have the others score these views."""

    def _step_loop(self) -> StepLoop:
        graph = RankedStep(self.batch_step, self.ranked_views)
        return StepLoop(graph, self.state, self.ranked_views, self.stream, self.timer, self.config.batch_size)


class LeadingTrainer(RankedTrainer):
    """The trainer of rank 0: the same as on one GPU for its caller."""

    def __init__(
        self, ranks: Ranks, backend: Backend, config: ResolvedConfig, splats: SplatArrays, images: ImageSet,
        **options: Any,
    ) -> None:  # fmt: skip
        self._is_collected = True  # rank 0 has what the others trained
        self._num_scattered = -1  # number of splats of which the others have their shares; -1: they are out of date
        ranks.tell("train", config, images.views, options.get("budget"))
        super().__init__(ranks, backend, config, splats, images, **options)

    def collect(self) -> None:
        """See Trainer.collect."""
        if self._is_collected:
            return
        parts, state = self._part_buffers(), IterState(self.backend)  # may raise MemoryError: before the others send
        self.ranks.tell("collect")
        skipped = int(self.state.read()["skipped_updates"])
        for rank in range(1, self.ranks.size):
            share = Share(rank, self.ranks.size)
            for planes, part in zip(self.model.planes().values(), parts, strict=True):
                self.ranks.receive(part, rank)
                copy_share(self.backend, share, self.model.num, planes, part, gather=True)
            self.ranks.receive(state.array, rank)
            skipped += int(state.read()["skipped_updates"])
        self.state.write(skipped_updates=skipped)
        self._is_collected = True

    def load_planes(self, planes: dict[str, Any], capacity: int) -> None:
        """See Trainer.load_planes."""
        super().load_planes(planes, capacity)
        self._is_collected, self._num_scattered = True, -1

    def _run_steps(self, target: int) -> None:
        if self._num_scattered < 0:
            self._scatter()
        self.ranked_views.allocate()
        self.ranks.tell("run", target)
        self._is_collected = False
        with others_waiting(self.ranks):
            super()._run_steps(target)
        self.ranks.check()

    def recover_from_oom(self) -> None:
        """See Trainer.recover_from_oom; after a lack of memory on any rank, while none is in a step."""
        self.ranks.check()
        self.scratch.release()  # makes room to collect
        self.collect()
        super().recover_from_oom()

    def _fit_others(self) -> None:
        self._scatter()

    def _refine(self) -> None:
        self.collect()
        super()._refine()
        self._num_scattered = -1

    def _constrain(self) -> None:
        if self._num_scattered >= 0 and self.step % self.config.densify_interval == 0:
            self.ranks.tell("constrain")
        super()._constrain()

    def _lead_scores(self, views: np.ndarray) -> None:
        if self._num_scattered != self.model.num:  # splats were removed since the last step
            self._scatter()
        self.ranks.tell("score", views)

    def _scatter(self) -> None:
        """Send the others their shares of all splats. SharedMemoryError where a rank has no room for its buffers."""
        self._num_scattered = -1
        self.ranks.tell("scatter", self.step, self.model.num, self.splats.capacity, self.size)
        parts = all_or_none(self.ranks, self.backend, self._buffers_to_scatter)
        for rank in range(1, self.ranks.size):
            for planes, part in zip(self.model.planes().values(), parts, strict=True):
                copy_share(self.backend, Share(rank, self.ranks.size), self.model.num, planes, part, gather=False)
                self.ranks.send(part, rank)
        self._num_scattered = self.model.num

    def _buffers_to_scatter(self) -> list[Any]:
        self.ranked_views.allocate()
        return self._part_buffers()

    def _part_buffers(self) -> list[Any]:
        """Of a share of each of the planes, which follow one another: the memory is the same."""
        columns, rows = (
            self.share.columns(self.splats.capacity),
            [len(planes) for planes in self.model.planes().values()],
        )
        buffer = self.backend.xp.zeros((max(rows), columns), "float32")
        return [buffer[:num] for num in rows]


class FollowingTrainer(RankedTrainer):
    """The trainer of another rank, which holds its share only. splats: any; those of rank 0 replace them."""

    def follow(self) -> None:
        """Do what rank 0 tells, until it leaves."""
        works: dict[str, Callable[..., None]] = {
            "scatter": self._take_share, "run": self._run_steps,
            "constrain": self._constrain, "collect": self._send_share, "score": self.scorer.sums,
        }  # fmt: skip
        while True:
            try:
                name, *arguments = self.ranks.listen()
            except RankError:
                return
            with suppress(SharedMemoryError):
                works[name](*arguments)
                continue
            self.scratch.release()  # rank 0 sends fewer splats

    def _run_steps(self, target: int) -> None:
        self._set_resolution()
        super()._run_steps(target)

    def _take_share(self, step: int, num: int, capacity: int, size: float) -> None:
        all_or_none(self.ranks, self.backend, lambda: self._make_room(num, capacity))
        if size != self.size:
            self.set_size(size)
            self.rasterizer.generation += 1  # captured graphs hold it
        self.splats.num = self.share.count(num)
        for planes in self.model.planes().values():
            self.ranks.receive(planes, 0)
        self.state.write(step=step, num_splats=num, overflowed=0)
        self.loop.sync()

    def _make_room(self, num: int, capacity: int) -> None:
        """Allocate all buffers for a share of `num` splats, of which there may be `capacity`; contents are lost."""
        model, columns, num_before = self.model, self.share.columns(capacity), int(self.state.read()["num_splats"])
        is_resized = columns != self.splats.capacity
        if is_resized:
            for width in (0, columns):  # frees those of before first
                planes = {name: self.backend.xp.empty((len(p), width), "float32") for name, p in model.planes().items()}
                model.set_planes(planes)
        if not self.scratch.allocated:
            self.scratch.allocate(self.scratch.pairs_needed(num / max(num_before, 1)), capacity)
        elif is_resized or capacity != self.ranked_views.capacity:
            self.rasterizer.resize_splats(capacity)
        self.ranked_views.allocate()

    def _send_share(self) -> None:
        for planes in self.model.planes().values():
            self.ranks.send(planes, 0)
        self.ranks.send(self.state.array, 0)
        self.state.write(skipped_updates=0)  # rank 0 has counted them
