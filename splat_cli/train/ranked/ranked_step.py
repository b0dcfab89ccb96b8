"""A batch on several ranks: captured graphs, with exchanges between and beside them."""

from __future__ import annotations

import functools
from collections.abc import Callable

from splat_cli.render.captured_graph import CapturedGraph
from splat_cli.render.project_backward import project_backward
from splat_cli.train.batch_step import BatchStep
from splat_cli.train.ranked.ranked_views import RankedViews


class RankedStep:
    """Replays batches as CapturedGraph does. stages: what a batch queues, by name, in this order.

    launches: of the stages that are captured. Own splats are projected into the views of others first, which are then
    sent while own views are projected; the gradients of an own view are sent while the next one is rendered.
    """

    def __init__(self, batch: BatchStep, views: RankedViews) -> None:
        self.batch, self.views = batch, views
        self.launches, self.stages = dict[str, Callable[[], None]](), dict[str, Callable[[], None]]()
        self._graphs = list[CapturedGraph]()
        self._capture("project others", self._project_others)
        self.stages["send projections"] = lambda: views.exchange.begin_projections()
        self._capture("project own", self._project_own)
        self.stages["receive projections"] = views.ranks.end_exchanges
        for view in range(views.num_views):
            self._capture(f"render {view}", functools.partial(self._render, view))
            self.stages[f"send gradients {view}"] = functools.partial(self._send_gradients, view)
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

    def _render(self, view: int) -> None:
        self.views.render(view)
        self.batch.differentiate()
        self.views.exchange.send(view, self.batch.state, self.batch.rasterizer.projection)

    def _send_gradients(self, view: int) -> None:
        is_last, exchange = view == self.views.num_views - 1, self.views.exchange
        (exchange.exchange_gradients if is_last else exchange.begin_gradients)(view)

    def _update(self) -> None:
        batch, raster, exchange, share = self.batch, self.batch.rasterizer, self.views.exchange, self.views.share
        exchange.agree(batch.state, self.views.batch)
        whole = exchange.whole
        project_backward(batch.splats, raster.cameras, batch.state, raster.antialias, whole, batch.update(), share)
        batch.add_noise(whole, share)
