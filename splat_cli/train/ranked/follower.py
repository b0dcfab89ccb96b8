"""Ranks 1, 2, ...: trainers of a share of the splats, which execute the commands of rank 0 (leader.py)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from splat_cli.data.training_images import TrainingImages
from splat_cli.ranks.agreement import SharedMemoryError, all_or_none
from splat_cli.ranks.protocol import RankError, Ranks
from splat_cli.ranks.share import Share
from splat_cli.terminal.phase_timer import PhaseTimer
from splat_cli.train.ranked.leader import RankParts
from splat_cli.train.ranked.ranked_scores import RankedScorer
from splat_cli.train.ranked.shares import ChangedSplats, receive_share, send_share
from splat_cli.train.step import BatchStep, StepLoop
from splat_cli.train.trainer import Trainer, Unsharded


class Follower(Unsharded):
    """The Sharding of rank 1, 2, ..., whose trainer holds only a share and follows the commands of rank 0.

    The trainer's initial splats are placeholders, which rank 0 replaces.
    """

    parts: RankParts
    trainer: Trainer
    _is_leaving = False  # the share is to be sent to rank 0 concurrently with scores

    def __init__(self, ranks: Ranks) -> None:
        self.ranks, self.share = ranks, Share(ranks.rank, ranks.size, sharded=True)

    def connect(
        self, step: BatchStep, images: TrainingImages, timer: PhaseTimer, rng: np.random.Generator
    ) -> tuple[RankedScorer, StepLoop]:
        """See Sharding.connect."""
        overlap = self._move_share
        self.parts = RankParts(self.ranks, self.share, step, images, timer, rng, lambda views: None, overlap)
        return self.parts.scorer, self.parts.loop

    def follow(self, trainer: Trainer) -> None:
        """Execute the commands of rank 0 by this rank's trainer until rank 0 ends."""
        self.trainer = trainer
        commands: dict[str, Callable[..., None]] = {
            "scatter": self._take_share,
            "change": self._take_changes,
            "run": self._run_until,
            "constrain": trainer.constrain,
            "collect": self._send_share,
            "score": self._score,
        }
        while True:
            try:
                name, *arguments = self.ranks.next_message()
            except RankError:
                return
            with suppress(SharedMemoryError):
                commands[name](*arguments)
                continue
            trainer.scratch.release()  # rank 0 sends fewer splats

    def _run_until(self, step: int) -> None:
        self.trainer.set_resolution()
        self.parts.loop.run_until(step)

    def _score(self, views: np.ndarray, collects: bool) -> None:
        self._is_leaving = collects
        try:
            self.parts.scorer.sums(views)
        finally:
            has_left, self._is_leaving = collects and not self._is_leaving, False
            if has_left:
                self._end_send()

    def _move_share(self) -> None:
        if self._is_leaving:
            self._is_leaving = False
            with self.ranks.exchange_stream():
                send_share(self.ranks, self.trainer.model, self.trainer.state.array)

    def _send_share(self) -> None:
        send_share(self.ranks, self.trainer.model, self.trainer.state.array)
        self._end_send()

    def _end_send(self) -> None:
        self.ranks.end_exchanges()
        self.trainer.state.write(skipped_updates=0)  # rank 0 has counted them

    def _take_share(self, step: int, num: int, capacity: int, size: float) -> None:
        trainer = self.trainer
        all_or_none(self.ranks, trainer.backend, lambda: self._allocate(num, capacity))
        if size != trainer.size:
            trainer.set_size(size)
            trainer.rasterizer.generation += 1  # captured graphs contain its address
        trainer.splats.num = self.share.count(num)
        receive_share(self.ranks, trainer.model)
        trainer.state.write(step=step, num_splats=num, overflowed=0)
        trainer.loop.sync()

    def _take_changes(self, num: int, count: int) -> None:
        trainer = self.trainer
        trainer.splats.num = self.share.count(num)
        if count:
            changed = all_or_none(self.ranks, trainer.backend, lambda: ChangedSplats(trainer.model, count))
            changed.receive(self.ranks, self.share)
        trainer.state.write(num_splats=num)

    def _allocate(self, num: int, capacity: int) -> None:
        """Allocate all buffers for the share of a model of `num` splats and the given capacity; contents are lost."""
        model, scratch, state = self.trainer.model, self.trainer.scratch, self.trainer.state
        columns, num_before = self.share.columns(capacity), int(state.read()["num_splats"])
        is_resized = columns != model.splats.capacity
        if is_resized:
            for width in (0, columns):  # 0 frees the old planes first
                planes = {
                    name: model.backend.xp.empty((len(p), width), "float32") for name, p in model.planes().items()
                }
                model.set_planes(planes)
        if not scratch.allocated:
            scratch.allocate(scratch.pairs_needed(num / max(num_before, 1)), capacity)
        elif is_resized or capacity != self.parts.views.capacity:
            scratch.resize_splats(capacity)
        self.parts.views.allocate()
