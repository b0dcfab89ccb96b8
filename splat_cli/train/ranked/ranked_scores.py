"""Scores of splats on several ranks: each rank scores a part of the views, and rank 0 adds the sums of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from splat_cli.config import ResolvedConfig
from splat_cli.density.ratings import add_scores
from splat_cli.optim.loss import PhotometricLoss
from splat_cli.ranks.agreement import all_or_none, fatal_out_of_memory
from splat_cli.train.captured_graph import CapturedGraph
from splat_cli.train.ranked.ranked_views import RankedViews
from splat_cli.train.view_scores import ViewScorer


class RankedScorer(ViewScorer):
    """Rank j % ranks scores the j-th view. On rank 0, `sums` are those of all ranks.

    lead: called first with the views; on rank 0, it makes the others call `sums`, too. overlap: called on all ranks
    when the rendering of the first views is queued, to queue transfers that overlap with it; again after an overflow.
    """

    def __init__(
        self, views: RankedViews, config: ResolvedConfig, loss: PhotometricLoss,
        load_photographs: Callable[[np.ndarray], object], random: np.random.Generator, *,
        lead: Callable[[np.ndarray], object], overlap: Callable[[], object],
    ) -> None:  # fmt: skip
        super().__init__(config, views.model, views.rasterizer, loss, views.state, load_photographs, random)
        self._ranked_views, self._ranks, self._lead, self._overlap = views, views.ranks, lead, overlap
        self._graphs: dict[int, list[CapturedGraph]] = {}  # by number of views, see _make_graphs
        self._ahead: tuple[int, np.ndarray, Any] | None = None  # number of splats, views, sums

    def score_ahead(self, num_views: int) -> None:
        """On rank 0: scores for the next call of `scores`, before splats are collected."""
        views = self._draw(num_views)
        self._ahead = self.model.num, views, self.sums(views)

    def scores(self, num_views: int) -> tuple[Any, Any]:
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
        self._graphs.clear()
        self._ranked_views.release()

    def sums(self, views: np.ndarray) -> Any:
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
        """Nothing yet: `_reset` loads them."""

    def _grow_if_overflowed(self) -> bool:
        return self._ranked_views.grow_if_overflowed(self.state)

    def _reset(self, views: np.ndarray, keep: bool) -> None:
        def load_and_reset() -> None:
            load(views[self._ranks.rank :: self._ranks.size])
            reset(views, keep)

        load, reset = super()._load, super()._reset
        all_or_none(self._ranks, self.rasterizer.backend, load_and_reset)

    def _score(self, views: np.ndarray) -> None:
        is_current = all(graph.current for graphs in self._graphs.values() for graph in graphs)
        if not is_current:
            self._graphs.clear()
        self._reset(views, keep=bool(self._graphs))
        for first in range(0, len(views), self._ranked_views.batch):
            count = min(self._ranked_views.batch, len(views) - first)
            others, own, render, end = self._graphs.setdefault(count, self._make_graphs(count))
            others.run(1)
            self._ranked_views.exchange.begin_projections()
            own.run(1)
            self._ranks.end_exchanges()
            render.run(1)
            if first == 0:
                self._overlap()
            self._ranked_views.exchange.begin_results()
            self._ranks.end_exchanges()
            end.run(1)

    def _make_graphs(self, count: int) -> list[CapturedGraph]:
        """Of `count` views: projection into those of others and into own ones; rendering of these; the end.

        All ranks know afterwards whether one of the views overflowed.
        """

        def project_others() -> None:
            self._ranked_views.begin(count, "next_views", self._views, self._cursor)
            self._ranked_views.project(count, own=False)

        def project_own() -> None:
            self._ranked_views.project(count, own=True)

        def render_views() -> None:
            own = len(range(self._ranks.rank, count, self._ranks.size))
            for view in range(own):
                with self._ranked_views.rendered(view, own):
                    self._add_scores()
                    self._ranked_views.exchange.send_result(view, self.state)

        def end() -> None:
            self._ranked_views.exchange.agree(self.state, count)

        return [CapturedGraph(self.rasterizer, launch) for launch in (project_others, project_own, render_views, end)]
