"""A batch on several ranks: three captured graphs, with exchanges between them."""

from __future__ import annotations

import functools
from collections.abc import Callable

from splat_cli.render.captured_graph import CapturedGraph
from splat_cli.render.project_backward import project_backward
from splat_cli.train.batch_step import BatchStep
from splat_cli.train.ranked.ranked_views import RankedViews


class RankedStep:
    """Replays batches as CapturedGraph does. stages: what a batch queues, by name, in this order.

    launches: of the stages that are captured: own splats into all views; own views; own splats' update.
    """

    def __init__(self, batch: BatchStep, views: RankedViews) -> None:
        self.batch, self.views = batch, views
        self.launches = {"project": self._project, "render": self._render, "update": self._update}
        self._graphs = {name: CapturedGraph(batch.rasterizer, launch) for name, launch in self.launches.items()}
        replay = {name: functools.partial(graph.run, 1) for name, graph in self._graphs.items()}
        self.stages: dict[str, Callable[[], None]] = {
            "project": replay["project"], "exchange projections": lambda: views.exchange.exchange_projections(),
            "render": replay["render"], "exchange gradients": lambda: views.exchange.exchange_gradients(),
            "update": replay["update"],
        }  # fmt: skip

    @property
    def current(self) -> bool:
        """See CapturedGraph.current."""
        return all(graph.current for graph in self._graphs.values())

    def run(self, count: int) -> None:
        """Queue `count` batches."""
        for _ in range(count):
            for queue in self.stages.values():
                queue()

    def _project(self) -> None:
        self.views.project(self.views.batch, self.batch.begin_step, self.batch.config.dropout)

    def _render(self) -> None:
        batch = self.batch
        for number in self.views.pictures(self.views.batch):
            batch.differentiate()
            self.views.exchange.send(number, batch.state, batch.rasterizer.projection)

    def _update(self) -> None:
        batch, raster, exchange, share = self.batch, self.batch.rasterizer, self.views.exchange, self.views.share
        exchange.agree(batch.state, self.views.batch)
        whole = exchange.whole
        project_backward(batch.splats, raster.cameras, batch.state, raster.antialias, whole, batch.update(), share)
        batch.add_noise(whole, share)
