"""Scores of splats on several ranks: each rank scores a part of the views, and rank 0 adds the sums of all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from splat_cli.config import ResolvedConfig
from splat_cli.density.ratings import add_scores
from splat_cli.device import DeviceArray
from splat_cli.joint.loss import PhotometricLoss
from splat_cli.ranks.agreement import all_or_none, fatal_out_of_memory
from splat_cli.train.ranked.ranked_views import RankedViews
from splat_cli.train.ranked.stages import Stages
from splat_cli.train.view_scores import ViewScorer


class RankedScorer(ViewScorer):
    """Rank j % ranks scores the j-th view. On rank 0, `sums` are those of all ranks.

    lead: called first with the views; on rank 0, it makes the others call `sums`, too. overlap: called on all ranks
    when the rendering of the first views is queued, to queue transfers that overlap with it; again after an overflow.
    """

    def __init__(
        self, views: RankedViews, config: ResolvedConfig, loss: PhotometricLoss,
        load_photographs: Callable[[np.ndarray], object], rng: np.random.Generator, *,
        lead: Callable[[np.ndarray], object], overlap: Callable[[], object],
    ) -> None:  # fmt: skip
        super().__init__(config, views.model, views.rasterizer, loss, views.state, load_photographs, rng)
        self._ranked_views, self._ranks, self._lead, self._overlap = views, views.ranks, lead, overlap
        self._ahead: tuple[int, np.ndarray, DeviceArray] | None = None  # number of splats, views, sums

    def score_ahead(self, num_views: int) -> None:
        """On rank 0: scores for the next call of `scores`, before splats are collected."""
        views = self._draw(num_views)
        self._ahead = self.model.num, views, self.sums(views)

    def scores(self, num_views: int) -> tuple[DeviceArray, DeviceArray]:
        """See ViewScorer.scores. If splats were removed since `score_ahead`, its views are scored anew."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return super().scores(num_views)
        num, views, sums = ahead
        return self._means(sums if num == self.model.num else self.sums(views), len(views))

    def release(self) -> None:
        """Free the buffers of scores and those between the ranks."""
        super().release()
        self._ahead = None
        self._ranked_views.release()

    def sums(self, views: np.ndarray) -> DeviceArray:
        """See ViewScorer.sums; all ranks call it with the same views."""
        num, backend = int(self.state.read()["num_splats"]), self.rasterizer.backend
        part = backend.xp.empty((num, 4 if self.fixed_sums else 2), "float32") if self._ranks.rank == 0 else None
        self._lead(views)
        with fatal_out_of_memory(self._ranks):
            sums = super().sums(views)
            if part is None:
                self._ranks.send(sums[:num], 0)
                return sums
            for rank in range(1, self._ranks.size):
                self._ranks.receive(part, rank)
                add_scores(backend, part, sums)
        return sums

    def _load(self, views: np.ndarray) -> None:
        """Does nothing: `_reset` loads the photographs."""

    def _grow_if_overflowed(self) -> bool:
        return self._ranked_views.grow_if_overflowed(self.state)

    def _reset(self, views: np.ndarray, keep: bool) -> None:
        def load_and_reset() -> None:
            load(views[self._ranks.rank :: self._ranks.size])
            reset(views, keep)

        load, reset = super()._load, super()._reset
        all_or_none(self._ranks, self.rasterizer.backend, load_and_reset)

    @property
    def _views_at_once(self) -> int:
        """Number of views that are exchanged together."""
        return self._ranked_views.batch

    def _make_graph(self, count: int) -> Stages:
        """See ViewScorer._make_graph. All ranks know afterwards whether one of the views overflowed."""
        ranked = self._ranked_views
        stages, num_own = Stages(self.rasterizer), ranked.num_own(count)

        def render_views() -> None:
            for view in range(num_own):
                with ranked.rendered(view, num_own):
                    self._add_scores()
                    ranked.exchange.send_result(view, self.state)

        stages.queue_projections(ranked, count, lambda: ranked.begin(count, "next_views", self._views, self._cursor))
        stages.capture("render", render_views)
        stages.stages["move shares"] = self._overlap
        stages.stages["send results"] = lambda: ranked.exchange.begin_results()
        stages.stages["receive results"] = self._ranks.end_exchanges
        stages.capture("agree", lambda: ranked.exchange.agree(self.state, count))
        return stages
