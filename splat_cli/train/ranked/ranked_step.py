"""A batch on several ranks: captured graphs, with exchanges between and concurrent with them."""

from __future__ import annotations

import dataclasses
from functools import partial

from splat_cli.render.iter_state import IterState
from splat_cli.render.project_backward import SEEN_WARPS, UNSEEN_WARPS, project_backward
from splat_cli.train.ranked.ranked_views import RankedViews, Stages
from splat_cli.train.step import BatchStep


class RankedStep(Stages):
    """Stages of a training batch.

    Exchanges overlap with kernels: projections as in `Stages.queue_projections`; the gradients of an own view with the
    rendering of the next; losses and overflows with the backward pass of the last view; its gradients with the update
    of splats that no view shows.
    """

    keeps_steps = False

    def __init__(self, batch_step: BatchStep, views: RankedViews) -> None:
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
        """See RankedViews.grow_if_overflowed."""
        return self.views.grow_if_overflowed(state)

    def _render(self, view: int, differentiate: bool) -> None:
        """Queue the picture and the loss of the rank's `view`-th view, and its gradients if they come at once."""
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
