"""A batch on several ranks: captured graphs, with exchanges between and beside them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from splat_cli.render.project_backward import SEEN_WARPS, UNSEEN_WARPS, project_backward
from splat_cli.train.batch_step import BatchStep
from splat_cli.train.captured_graph import CapturedGraph
from splat_cli.train.ranked.ranked_views import RankedViews


class RankedStep:
    """Replays batches as CapturedGraph does. stages: functions that queue a batch, by name, in this order.

    launches: those of the captured stages. Exchanges overlap with kernels: projections into the views of others with
    the projection into own views; the gradients of an own view with the rendering of the next; losses and overflows
    with the backward pass of the last view; its gradients with the update of splats that no view shows.
    """

    def __init__(self, batch: BatchStep, views: RankedViews) -> None:
        self.batch, self.views = batch, views
        self.launches, self.stages = dict[str, Callable[[], None]](), dict[str, Callable[[], None]]()
        self._graphs = list[CapturedGraph]()
        self._capture("project others", self._project_others)
        self.stages["send projections"] = lambda: views.exchange.begin_projections()
        self._capture("project own", self._project_own)
        self.stages["receive projections"] = views.ranks.end_exchanges
        last = views.num_views - 1
        for view in range(last):
            self._capture(f"render {view}", functools.partial(self._render_and_differentiate, view))
            self.stages[f"send gradients {view}"] = functools.partial(self._send_gradients, view)
        self._capture(f"render {last}", functools.partial(self._render, last))
        self.stages["send results"] = lambda: views.exchange.begin_results()
        self._capture(f"differentiate {last}", functools.partial(self._differentiate, last))
        self.stages["receive results"] = views.ranks.end_exchanges
        self.stages[f"send gradients {last}"] = functools.partial(self._send_gradients, last)
        self._capture("update unseen", self._update_unseen)
        self.stages["receive gradients"] = views.ranks.end_exchanges
        self._capture("update", self._update)

    @property
    def current(self) -> bool:
        """See CapturedGraph.current."""
        return all(graph.current for graph in self._graphs)

    def run(self, count: int) -> None:
        """Queue `count` batches."""
        for _ in range(count):
            for queue in self.stages.values():
                queue()

    def _capture(self, name: str, launch: Callable[[], None]) -> None:
        """Add a stage that is captured."""
        self._graphs.append(CapturedGraph(self.batch.rasterizer, launch))
        self.launches[name], self.stages[name] = launch, functools.partial(self._graphs[-1].run, 1)

    def _project_others(self) -> None:
        views, batch = self.views, self.batch
        views.begin(views.batch, "begin_batch", *batch.view_source)
        views.project(views.batch, own=False, dropout=batch.config.dropout)

    def _project_own(self) -> None:
        self.views.project(self.views.batch, own=True, dropout=self.batch.config.dropout)

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
        if self.batch.update().dense:
            self._project_backward(UNSEEN_WARPS)

    def _update(self) -> None:
        self._project_backward(SEEN_WARPS)
        self.batch.add_noise(self.views.exchange.whole, self.views.share)

    def _project_backward(self, warps: int) -> None:
        batch, raster, whole = self.batch, self.batch.rasterizer, self.views.exchange.whole
        update = dataclasses.replace(batch.update(), warps=warps)
        project_backward(
            batch.splats, raster.cameras, batch.state, raster.settings.antialias, whole, update, self.views.share
        )
