"""Sharding of one of several ranks: it trains a share of the splats, and all ranks take the same decisions.

Rank 0 leads: it runs the session, and sends the others the calls of its trainer that all execute together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from splat_cli.config import ResolvedConfig
from splat_cli.data.image_budget import ImageBudget
from splat_cli.data.training_images import TrainingImages
from splat_cli.density.ratings import add_scores, mean_scores
from splat_cli.device import DeviceArray
from splat_cli.gaussians.splats import Splats
from splat_cli.model.model import Model, rounded_capacity
from splat_cli.ranks.protocol import (
    RankError,
    Ranks,
    Share,
    SharedMemoryError,
    all_or_none,
    fatal_out_of_memory,
    numbers_of_all,
)
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import SEEN_WARPS, UNSEEN_WARPS, project_backward
from splat_cli.scene.points.observations import Observations
from splat_cli.scene.view import View
from splat_cli.train.multi_gpu.sharded_views import ShardedViews, Stages
from splat_cli.train.multi_gpu.shares import SharedSplats
from splat_cli.train.sharding import Sharding
from splat_cli.train.step import BatchStep
from splat_cli.train.view_scores import ViewScorer, ViewsToScore


class ShardedBatch(Stages):
    """Stages of a training batch.

    Exchanges overlap with kernels: projections as in `Stages.queue_projections`; the gradients of an own view with the
    rendering of the next; losses and overflows with the backward pass of the last view; its gradients with the update
    of splats that no view shows.
    """

    keeps_steps = False

    def __init__(self, batch_step: BatchStep, views: ShardedViews) -> None:
        super().__init__(batch_step.rasterizer)
        self.batch_step, self.views = batch_step, views

        def begin() -> None:
            views.begin(views.batch, "begin_batch", batch_step.schedule, batch_step.order)

        self.queue_projections(views, views.batch, begin, batch_step.config.dropout)
        last = views.num_views - 1
        for view in range(last):
            self.capture(f"render {view}", partial(self._render, view, differentiate=True))
            self.add(f"send gradients {view}", partial(self._send_gradients, view))
        self.capture(f"render {last}", partial(self._render, last, differentiate=False))
        self.add("send results", lambda: views.exchange.begin_results())
        self.capture(f"differentiate {last}", partial(self._differentiate, last))
        self.add("receive results", views.ranks.end_exchanges)
        self.add(f"send gradients {last}", partial(self._send_gradients, last))
        self.capture("update unseen", self._update_unseen)
        self.add("receive gradients", views.ranks.end_exchanges)
        self.capture("update", partial(self._project_backward, SEEN_WARPS))

    def grow_if_overflowed(self, state: IterState) -> bool:
        """See ShardedViews.grow_if_overflowed."""
        return self.views.grow_if_overflowed(state)

    def _render(self, view: int, differentiate: bool) -> None:
        """Queue the picture and the loss of the rank's `view`-th view, and, if `differentiate`, its gradients."""
        with self.views.rendered(view, self.views.num_views):
            self.batch_step.measure_loss()
            self.views.exchange.send_result(view, self.batch_step.state)
            if differentiate:
                self._differentiate(view)

    def _differentiate(self, view: int) -> None:
        self.views.select(view)
        self.batch_step.differentiate()
        self.views.exchange.send(view, self.batch_step.state, self.batch_step.rasterizer.projection)

    def _send_gradients(self, view: int) -> None:
        self.views.exchange.begin_gradients(view)

    def _update_unseen(self) -> None:
        self.views.exchange.agree(self.batch_step.state, self.views.batch)
        if self.batch_step.update_options().dense:
            self._project_backward(UNSEEN_WARPS)

    def _project_backward(self, warps: int) -> None:
        step, raster, whole = self.batch_step, self.batch_step.rasterizer, self.views.exchange.whole
        update = dataclasses.replace(step.update_options(), warps=warps)
        project_backward(step.model.splats, raster.cameras, step.state, raster.settings.antialias, whole, update)


class OwnViews(ViewsToScore):
    """The views of one rank: rank j % ranks renders the j-th view."""

    def __init__(self, views: ShardedViews, images: TrainingImages) -> None:
        self._views, self._ranks, self._images = views, views.ranks, images

    @property
    def at_once(self) -> int:
        """Number of views that are exchanged together."""
        return self._views.batch

    def load(self, views: np.ndarray, reset: Callable[[], None]) -> None:
        """See ViewsToScore.load. SharedMemoryError if a rank runs out of memory."""
        with all_or_none(self._ranks, self._views.rasterizer.backend):
            self._images.load(views[self._ranks.rank :: self._ranks.size])
            reset()

    def graph(self, count: int, views: DeviceArray, cursor: DeviceArray, score: Callable[[], None]) -> Stages:
        """See ViewsToScore.graph. All ranks know afterwards whether one of the views overflowed."""
        own = self._views
        stages, num_own = Stages(own.rasterizer), own.num_own(count)

        def render_views() -> None:
            for view in range(num_own):
                with own.rendered(view, num_own):
                    score()
                    own.exchange.send_result(view, own.state)

        stages.queue_projections(own, count, lambda: own.begin(count, "next_views", views, cursor))
        stages.capture("render", render_views)
        stages.add("send results", lambda: own.exchange.begin_results())
        stages.add("receive results", self._ranks.end_exchanges)
        stages.capture("agree", lambda: own.exchange.agree(own.state, count))
        return stages

    def grow_if_overflowed(self, state: IterState) -> bool:
        """See ShardedViews.grow_if_overflowed."""
        return self._views.grow_if_overflowed(state)

    def release(self) -> None:
        """Free the buffers between the ranks."""
        self._views.release()


class ShardedScorer(ViewScorer):
    """Scores from the sums of all ranks, the same on each of them. All call `scores` at the same point."""

    def __init__(self, batch_step: BatchStep, views: OwnViews, rng: np.random.Generator, ranks: Ranks) -> None:
        super().__init__(batch_step, views, rng)
        self._ranks = ranks

    def scores(self, num_views: int) -> tuple[DeviceArray, DeviceArray]:
        """See ViewScorer.scores. Rank 0 adds the sums and sends the means to the others."""
        views, ranks, backend = self.draw(num_views), self._ranks, self.rasterizer.backend
        num = int(self.batch_step.state.read()["num_splats"])
        with all_or_none(ranks, backend):
            means = backend.xp.empty((2, num), "float32")
            part = backend.xp.empty((num, self.sums_width), "float32") if ranks.rank == 0 else None
        with fatal_out_of_memory(ranks):
            sums = self.sums(views)
            if part is None:
                ranks.send(sums[:num], 0)
                ranks.receive(means, 0)
                return means[0], means[1]
            for rank in range(1, ranks.size):
                ranks.receive(part, rank)
                add_scores(backend, part, sums)
            means = mean_scores(backend, sums, num, len(views))
            for rank in range(1, ranks.size):
                ranks.send(means, rank)
        return means[0], means[1]


class Sharded(Sharding):
    """The Sharding of a rank. shared: all splats; views: the views that this rank renders."""

    shared: SharedSplats
    views: ShardedViews

    def __init__(self, ranks: Ranks) -> None:
        self.ranks, self.share = ranks, Share(ranks.rank, ranks.size)

    def connect(self, batch_step: BatchStep) -> ShardedBatch:
        self._backend, self.views = batch_step.backend, ShardedViews(self.ranks, self.share, batch_step)
        self.shared = SharedSplats(self.ranks, self.share, batch_step.model)
        return ShardedBatch(batch_step, self.views)

    def scorer(self, batch_step: BatchStep, images: TrainingImages, rng: np.random.Generator) -> ShardedScorer:
        return ShardedScorer(batch_step, OwnViews(self.views, images), rng, self.ranks)

    @property
    def num_splats(self) -> int:
        return self.shared.num

    @property
    def capacity(self) -> int:
        return self.shared.capacity

    def check(self) -> None:
        self.ranks.check()

    def together(self, trainer: object, name: str, *arguments: Any) -> Any:
        self.ranks.broadcast(name, *arguments)
        return attrgetter(name)(trainer)(*arguments)

    def follow(self, trainer: object) -> None:
        """On other ranks: execute the calls that rank 0 sends until it ends."""
        while True:
            try:
                name, *arguments = self.ranks.next_message()
            except RankError:
                return
            with suppress(SharedMemoryError):  # rank 0 gets it, too, and continues with fewer splats
                attrgetter(name)(trainer)(*arguments)

    def load(self, planes: Mapping[str, Any], rows: Sequence[tuple[str, int]], num: int, capacity: int) -> None:
        self.shared.load(rows, num, rounded_capacity(capacity), planes)

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


def leading(
    ranks: Ranks,
    config: ResolvedConfig,
    views: Sequence[View],
    budget: ImageBudget | None,
    points: np.ndarray | Observations | None,
) -> Sharded:
    """The sharding of rank 0. Sends these inputs to the other ranks, which build their trainers from them."""
    ranks.broadcast("train", config, views, budget, points if config.free_space > 0 else None)
    return Sharded(ranks)
