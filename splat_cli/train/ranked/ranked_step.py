"""A batch on several ranks: captured graphs, with exchanges between and concurrent with them."""

from __future__ import annotations

import dataclasses
import functools

from splat_cli.render.project_backward import SEEN_WARPS, UNSEEN_WARPS, project_backward
from splat_cli.train.ranked.ranked_views import RankedViews, Stages
from splat_cli.train.step import BatchStep


class RankedStep(Stages):
    """Stages of a training batch.

    Exchanges overlap with kernels: projections as in `Stages.queue_projections`; the gradients of an own view with the
    rendering of the next; losses and overflows with the backward pass of the last view; its gradients with the update
    of splats that no view shows.
    """

    def __init__(self, batch: BatchStep, views: RankedViews) -> None:
        super().__init__(batch.rasterizer)
        self.batch, self.views = batch, views

        def begin() -> None:
            views.begin(views.batch, "begin_batch", batch.schedule, batch.order)

        self.queue_projections(views, views.batch, begin, batch.config.dropout)
        last = views.num_views - 1
        for view in range(last):
            self.capture(f"render {view}", functools.partial(self._render_and_differentiate, view))
            self.stages[f"send gradients {view}"] = functools.partial(self._send_gradients, view)
        self.capture(f"render {last}", functools.partial(self._render, last))
        self.stages["send results"] = lambda: views.exchange.begin_results()
        self.capture(f"differentiate {last}", functools.partial(self._differentiate, last))
        self.stages["receive results"] = views.ranks.end_exchanges
        self.stages[f"send gradients {last}"] = functools.partial(self._send_gradients, last)
        self.capture("update unseen", self._update_unseen)
        self.stages["receive gradients"] = views.ranks.end_exchanges
        self.capture("update", self._update)

    def _render_and_differentiate(self, view: int) -> None:
        with self.views.rendered(view, self.views.num_views):
            self._measure(view)
            self._differentiate(view)

    def _render(self, view: int) -> None:
        with self.views.rendered(view, self.views.num_views):
            self._measure(view)

    def _measure(self, view: int) -> None:
        self.batch.measure_loss()
        self.views.exchange.send_result(view, self.batch.state)

    def _differentiate(self, view: int) -> None:
        self.views.select(view)
        self.batch.differentiate()
        self.views.exchange.send(view, self.batch.state, self.batch.rasterizer.projection)

    def _send_gradients(self, view: int) -> None:
        self.views.exchange.begin_gradients(view)

    def _update_unseen(self) -> None:
        self.views.exchange.agree(self.batch.state, self.views.batch)
        if self.batch.update_options().dense:
            self._project_backward(UNSEEN_WARPS)

    def _update(self) -> None:
        self._project_backward(SEEN_WARPS)

    def _project_backward(self, warps: int) -> None:
        batch, raster, whole = self.batch, self.batch.rasterizer, self.views.exchange.whole
        update = dataclasses.replace(batch.update_options(), warps=warps)
        project_backward(batch.model.splats, raster.cameras, batch.state, raster.settings.antialias, whole, update)
