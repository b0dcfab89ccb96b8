"""A batch on several ranks: three captured graphs, with exchanges between them."""

from __future__ import annotations

from typing import Protocol

from splat_cli.config import ResolvedConfig
from splat_cli.device import Backend
from splat_cli.gaussians.splats import Splats
from splat_cli.ranks.protocol import Ranks
from splat_cli.ranks.share import Share
from splat_cli.render.captured_graph import CapturedGraph
from splat_cli.render.exchange import Exchange
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import Update, project, project_backward
from splat_cli.render.rasterizer import Rasterizer


class Steps(Protocol):
    """The parts of a training step that do not depend on the number of ranks."""

    config: ResolvedConfig
    state: IterState
    rasterizer: Rasterizer

    @property
    def backend(self) -> Backend: ...

    @property
    def splats(self) -> Splats: ...

    def begin_step(self) -> None:
        """Queue the start of a step."""

    def differentiate(self) -> None:
        """Queue the loss of the rendered picture, back to the gradients of projected splats."""

    def update(self) -> Update:
        """What to do with gradients of parameters."""

    def add_noise(self, share: Share) -> None:
        """Queue the noise that follows an update."""


class RankedStep:
    """Replays batches as CapturedGraph does: own splats into all views; own views; own splats' update."""

    def __init__(self, steps: Steps, ranks: Ranks, share: Share) -> None:
        self.steps, self.ranks, self.share = steps, ranks, share
        self._exchange: Exchange | None = None
        self._graphs = [CapturedGraph(steps.rasterizer, part) for part in (self._project, self._render, self._update)]

    @property
    def current(self) -> bool:
        """See CapturedGraph.current."""
        return all(graph.current for graph in self._graphs)

    @property
    def capacity(self) -> int:
        """Number of splats of all ranks that there is room for."""
        return len(self.steps.rasterizer.projection.depths)

    def run(self, count: int) -> None:
        """Queue `count` batches."""
        if count and (self._exchange is None or self._exchange.capacity != self.capacity):
            self._exchange = None  # free before the next is allocated
            self._exchange = Exchange(
                self.steps.backend, self.ranks, self.share, self.capacity, self.steps.config.batch_size
            )
        project_graph, render_graph, update_graph = self._graphs
        for _ in range(count):
            project_graph.run(1)
            self._buffers.exchange_projections()
            render_graph.run(1)
            self._buffers.exchange_gradients()
            update_graph.run(1)

    def _project(self) -> None:
        steps, raster = self.steps, self.steps.rasterizer
        for slot, projection in enumerate(self._buffers.slots):
            steps.begin_step()
            project(
                steps.splats,
                raster.cameras,
                steps.state,
                raster.antialias,
                projection,
                steps.config.dropout,
                self.share,
            )
            self._buffers.record_view(slot, raster.cameras, steps.state)

    def _render(self) -> None:
        steps, raster = self.steps, self.steps.rasterizer
        for number in range(self._buffers.num_views):
            self._buffers.receive(number, raster.cameras, steps.state, raster.projection)
            raster.blend_projection(steps.state)
            steps.differentiate()
            self._buffers.send(number, steps.state, raster.projection)

    def _update(self) -> None:
        steps, raster = self.steps, self.steps.rasterizer
        self._buffers.agree(steps.state)
        whole = self._buffers.whole
        project_backward(steps.splats, raster.cameras, steps.state, raster.antialias, whole, steps.update(), self.share)
        steps.add_noise(self.share)

    @property
    def _buffers(self) -> Exchange:
        assert self._exchange is not None
        return self._exchange
