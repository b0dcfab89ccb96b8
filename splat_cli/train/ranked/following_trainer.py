"""Trainers of ranks 1, 2, ..., which execute the commands of rank 0."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from splat_cli.ranks.agreement import SharedMemoryError, all_or_none
from splat_cli.ranks.protocol import RankError
from splat_cli.train.ranked.ranked_trainer import RankedTrainer
from splat_cli.train.ranked.shares import ChangedSplats, receive_share, send_share


class FollowingTrainer(RankedTrainer):
    """The trainer of rank 1, 2, ..., which holds only its share. splats: placeholders, replaced by those of rank 0."""

    _is_leaving = False  # the share is to be sent to rank 0 concurrently with scores

    def follow(self) -> None:
        """Execute the commands of rank 0 until it ends."""
        commands: dict[str, Callable[..., None]] = {
            "scatter": self._take_share, "change": self._take_changes, "run": self._run_steps,
            "constrain": self._constrain, "collect": self._send_share, "score": self._score,
        }  # fmt: skip
        while True:
            try:
                name, *arguments = self.ranks.next_message()
            except RankError:
                return
            with suppress(SharedMemoryError):
                commands[name](*arguments)
                continue
            self.scratch.release()  # rank 0 sends fewer splats

    def _run_steps(self, target: int) -> None:
        self._set_resolution()
        super()._run_steps(target)

    def _score(self, views: np.ndarray, collects: bool) -> None:
        self._is_leaving = collects
        try:
            self.scorer.sums(views)
        finally:
            has_left, self._is_leaving = collects and not self._is_leaving, False
            if has_left:
                self._end_send()

    def _move_shares(self) -> None:
        if self._is_leaving:
            self._is_leaving = False
            with self.ranks.exchange_stream():
                send_share(self.ranks, self.model, self.state.array)

    def _send_share(self) -> None:
        send_share(self.ranks, self.model, self.state.array)
        self._end_send()

    def _end_send(self) -> None:
        self.ranks.end_exchanges()
        self.state.write(skipped_updates=0)  # rank 0 has counted them

    def _take_share(self, step: int, num: int, capacity: int, size: float) -> None:
        all_or_none(self.ranks, self.backend, lambda: self._allocate(num, capacity))
        if size != self.size:
            self.set_size(size)
            self.rasterizer.generation += 1  # captured graphs hold it
        self.splats.num = self.share.count(num)
        receive_share(self.ranks, self.model)
        self.state.write(step=step, num_splats=num, overflowed=0)
        self.loop.sync()

    def _take_changes(self, num: int, count: int) -> None:
        self.splats.num = self.share.count(num)
        if count:
            changed = all_or_none(self.ranks, self.backend, lambda: ChangedSplats(self.model, count))
            changed.receive(self.ranks, self.share)
        self.state.write(num_splats=num)

    def _allocate(self, num: int, capacity: int) -> None:
        """Allocate all buffers for the share of a model of `num` splats and the given capacity; contents are lost."""
        model, columns, num_before = self.model, self.share.columns(capacity), int(self.state.read()["num_splats"])
        is_resized = columns != self.splats.capacity
        if is_resized:
            for width in (0, columns):  # 0 frees the old planes first
                planes = {name: self.backend.xp.empty((len(p), width), "float32") for name, p in model.planes().items()}
                model.set_planes(planes)
        if not self.scratch.allocated:
            self.scratch.allocate(self.scratch.pairs_needed(num / max(num_before, 1)), capacity)
        elif is_resized or capacity != self.ranked_views.capacity:
            self.scratch.resize_splats(capacity)
        self.ranked_views.allocate()
