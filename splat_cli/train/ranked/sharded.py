"""Sharding of one of several ranks: it trains a share of the splats, and all ranks take the same decisions.

Rank 0 leads: it runs the session, and sends the others the calls of its trainer that all execute together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from splat_cli.config import ResolvedConfig
from splat_cli.data.training_images import TrainingImages
from splat_cli.gaussians.splats import Splats
from splat_cli.model.model import Model, rounded_capacity
from splat_cli.ranks.agreement import SharedMemoryError, all_or_none, fatal_out_of_memory, numbers_of_all
from splat_cli.ranks.protocol import RankError, Ranks
from splat_cli.ranks.share import Share
from splat_cli.train.buffers import PAIRS_PER_SPLAT, initial_pairs
from splat_cli.train.ranked.ranked_scores import OwnViews, RankedScorer
from splat_cli.train.ranked.ranked_step import RankedStep
from splat_cli.train.ranked.ranked_views import RankedViews
from splat_cli.train.ranked.shares import SharedSplats
from splat_cli.train.sharding import Sharding
from splat_cli.train.step import BatchStep

if TYPE_CHECKING:
    from splat_cli.train.trainer import Trainer, TrainingInputs


class Sharded(Sharding):
    """The Sharding of a rank. shared: all splats; views: the views that this rank renders."""

    shared: SharedSplats
    views: RankedViews

    def __init__(self, ranks: Ranks) -> None:
        self.ranks, self.share = ranks, Share(ranks.rank, ranks.size)

    def connect(self, batch_step: BatchStep) -> RankedStep:
        self._backend, self.views = batch_step.backend, RankedViews(self.ranks, self.share, batch_step)
        self.shared = SharedSplats(self.ranks, self.share, batch_step.model)
        return RankedStep(batch_step, self.views)

    def scorer(self, batch_step: BatchStep, images: TrainingImages, rng: np.random.Generator) -> RankedScorer:
        return RankedScorer(batch_step, OwnViews(self.views, images), rng, self.ranks)

    @property
    def num_splats(self) -> int:
        return self.shared.num

    @property
    def capacity(self) -> int:
        return self.shared.capacity

    def check(self) -> None:
        self.ranks.check()

    def together(self, trainer: Trainer, name: str, *arguments: Any) -> Any:
        self.ranks.broadcast(name, *arguments)
        return attrgetter(name)(trainer)(*arguments)

    def follow(self, trainer: Trainer) -> None:
        """On other ranks: execute the calls that rank 0 sends until it ends."""
        while True:
            try:
                name, *arguments = self.ranks.next_message()
            except RankError:
                return
            with suppress(SharedMemoryError):  # rank 0 gets it, too, and continues with fewer splats
                if name == "load":
                    self._load(trainer, {}, *arguments)
                else:
                    attrgetter(name)(trainer)(*arguments)

    def load(self, trainer: Trainer, planes: Mapping[str, Any], capacity: int, step: int) -> None:
        values = {(name, row): found for name, rows in planes.items() for row, found in enumerate(rows)}
        sizes = list(values), len(values["params", 0]), rounded_capacity(capacity), step, trainer.size
        self.ranks.broadcast("load", *sizes)
        self._load(trainer, values, *sizes)

    def _load(
        self,
        trainer: Trainer,
        values: Mapping[tuple[str, int], np.ndarray],
        rows: list[tuple[str, int]],
        num: int,
        capacity: int,
        step: int,
        size: float,
    ) -> None:
        trainer.set_size(size)
        self.shared.load(rows, num, capacity, values)
        with self.all_or_none():
            trainer.scratch.allocate(initial_pairs(capacity, PAIRS_PER_SPLAT))
        trainer.state.write(step=step, num_splats=num, overflowed=0, skipped_updates=0)
        trainer.loop.sync()

    @contextmanager
    def steps(self) -> Iterator[None]:
        with self.all_or_none():
            self.allocate()
        with fatal_out_of_memory(self.ranks):
            yield
        self.check()

    def all_or_none(self) -> AbstractContextManager[None]:
        return all_or_none(self.ranks, self._backend)

    def allocate(self) -> None:
        self.views.allocate()

    def total(self, number: int) -> int:
        return int(numbers_of_all(self.ranks, self._backend, number).sum())

    def geometry(self) -> AbstractContextManager[Model]:
        return self.shared.geometry()

    def copies(self) -> dict[str, np.ndarray]:
        """See Sharding.copies: on the host."""
        return self.shared.download()

    def splats(self) -> Splats | None:
        return self.shared.splats()


def leading(ranks: Ranks, config: ResolvedConfig, inputs: TrainingInputs) -> Sharded:
    """The sharding of rank 0. Sends config and inputs to the other ranks, which build their trainers from them."""
    points = inputs.points if config.free_space > 0 else None
    ranks.broadcast("train", config, inputs.images.views, inputs.budget, points)
    return Sharded(ranks)
