"""A batch on several ranks: three captured graphs, with exchanges between them."""

from __future__ import annotations

from splat_cli.ranks.protocol import Ranks
from splat_cli.ranks.share import Share
from splat_cli.render.captured_graph import CapturedGraph
from splat_cli.render.exchange import Exchange
from splat_cli.render.project import project, project_backward
from splat_cli.train.batch_step import BatchStep


class RankedStep:
    """Replays batches as CapturedGraph does: own splats into all views; own views; own splats' update."""

    def __init__(self, batch: BatchStep, ranks: Ranks, share: Share) -> None:
        self.batch, self.ranks, self.share = batch, ranks, share
        self._exchange: Exchange | None = None
        self._graphs = [CapturedGraph(batch.rasterizer, part) for part in (self._project, self._render, self._update)]

    @property
    def current(self) -> bool:
        """See CapturedGraph.current."""
        return all(graph.current for graph in self._graphs)

    @property
    def capacity(self) -> int:
        """Number of splats of all ranks that there is room for."""
        return len(self.batch.rasterizer.projection.depths)

    def run(self, count: int) -> None:
        """Queue `count` batches."""
        if count and (self._exchange is None or self._exchange.capacity != self.capacity):
            self._exchange = None  # free before the next is allocated
            self._exchange = Exchange(
                self.batch.backend, self.ranks, self.share, self.capacity, self.batch.config.batch_size
            )
        project_graph, render_graph, update_graph = self._graphs
        for _ in range(count):
            project_graph.run(1)
            self._buffers.exchange_projections()
            render_graph.run(1)
            self._buffers.exchange_gradients()
            update_graph.run(1)

    def _project(self) -> None:
        batch, raster = self.batch, self.batch.rasterizer
        for slot, projection in enumerate(self._buffers.slots):
            batch.begin_step()
            dropout = batch.config.dropout
            project(batch.splats, raster.cameras, batch.state, raster.antialias, projection, dropout, self.share)
            self._buffers.record_view(slot, raster.cameras, batch.state)

    def _render(self) -> None:
        batch, raster = self.batch, self.batch.rasterizer
        for number in range(self._buffers.num_views):
            self._buffers.receive(number, raster.cameras, batch.state, raster.projection)
            raster.blend_projection(batch.state)
            batch.differentiate()
            self._buffers.send(number, batch.state, raster.projection)

    def _update(self) -> None:
        batch, raster = self.batch, self.batch.rasterizer
        self._buffers.agree(batch.state)
        whole = self._buffers.whole
        project_backward(batch.splats, raster.cameras, batch.state, raster.antialias, whole, batch.update(), self.share)
        batch.add_noise(self.share)

    @property
    def _buffers(self) -> Exchange:
        assert self._exchange is not None
        return self._exchange
