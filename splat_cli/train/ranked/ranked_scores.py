"""Scores of splats on several ranks: each rank scores a part of the views, and all get the means over all views."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from splat_cli.data.training_images import TrainingImages
from splat_cli.density.ratings import add_scores, mean_scores
from splat_cli.device import DeviceArray
from splat_cli.ranks.agreement import all_or_none, fatal_out_of_memory
from splat_cli.ranks.protocol import Ranks
from splat_cli.render.iter_state import IterState
from splat_cli.train.ranked.ranked_views import RankedViews, Stages
from splat_cli.train.step import BatchStep
from splat_cli.train.view_scores import ViewScorer, ViewsToScore


class OwnViews(ViewsToScore):
    """The views of one rank: rank j % ranks renders the j-th view."""

    def __init__(self, views: RankedViews, images: TrainingImages) -> None:
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
        ranked = self._views
        stages, num_own = Stages(ranked.rasterizer), ranked.num_own(count)

        def render_views() -> None:
            for view in range(num_own):
                with ranked.rendered(view, num_own):
                    score()
                    ranked.exchange.send_result(view, ranked.state)

        stages.queue_projections(ranked, count, lambda: ranked.begin(count, "next_views", views, cursor))
        stages.capture("render", render_views)
        stages.add("send results", lambda: ranked.exchange.begin_results())
        stages.add("receive results", self._ranks.end_exchanges)
        stages.capture("agree", lambda: ranked.exchange.agree(ranked.state, count))
        return stages

    def grow_if_overflowed(self, state: IterState) -> bool:
        """See RankedViews.grow_if_overflowed."""
        return self._views.grow_if_overflowed(state)

    def release(self) -> None:
        """Free the buffers between the ranks."""
        self._views.release()


class RankedScorer(ViewScorer):
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
