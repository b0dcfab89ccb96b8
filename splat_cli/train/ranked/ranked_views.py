"""Batches on several ranks: each rank projects its own splats into all views and renders its own views.

`Stages` queues a batch as captured graphs, with exchanges between and concurrent with them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from splat_cli.device import DeviceArray
from splat_cli.ranks.protocol import Ranks, all_or_none
from splat_cli.ranks.share import Share
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import THREADS
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.train.ranked.exchange import Exchange
from splat_cli.train.step import BatchStep, CapturedGraph, ViewPipeline

FIRST_ROWS = 1 / 8  # rows of messages per splat, until a view needs more
ROWS_HEADROOM = 1.1  # when messages grow


class RankedViews:
    """Views of training steps and of view scores. View b of a batch is rendered by rank b % ranks.

    batch: number of views that are projected and exchanged together.
    """

    def __init__(self, ranks: Ranks, share: Share, batch_step: BatchStep) -> None:
        self.ranks, self.share, self.rasterizer, self.batch = ranks, share, batch_step.rasterizer, batch_step.batch
        self.model, self.state = batch_step.model, batch_step.state
        rasterizer, state = batch_step.rasterizer, batch_step.state
        self._exchange: Exchange | None = None
        self._pipeline = ViewPipeline(rasterizer.backend, state, self._sort, self.select)
        self._rows_per_splat = FIRST_ROWS  # the same on all ranks

    @property
    def num_views(self) -> int:
        """Number of views of a batch that each rank renders."""
        return self.batch // self.ranks.size

    @property
    def capacity(self) -> int:
        """Capacity of the buffers, in splats of all ranks."""
        return self.rasterizer.projected_batch.columns

    @property
    def exchange(self) -> Exchange:
        """Buffers between the ranks, which `allocate` has made."""
        assert self._exchange is not None
        return self._exchange

    def allocate(self) -> None:
        """Allocate the buffers between the ranks for the rasterizer's capacity."""
        columns = self.share.columns(self.capacity)
        rows = min(math.ceil(self._rows_per_splat * columns / 32) * 32, columns)
        if self._exchange and (self._exchange.capacity, self._exchange.rows) == (self.capacity, rows):
            return
        self._exchange = None  # free before the next is allocated
        self.rasterizer.generation += 1  # captured graphs hold it
        backend = self.rasterizer.backend
        self._exchange = Exchange(backend, self.ranks, self.share, self.capacity, self.batch, rows)

    def release(self) -> None:
        """Free the buffers; captured graphs that use them become invalid when the rasterizer's are reallocated."""
        self._exchange = None

    def grow_if_overflowed(self, state: IterState) -> bool:
        """See Rasterizer.grow_if_overflowed. SharedMemoryError if the buffers of a rank do not fit."""
        if not state.read()["overflowed"]:  # the same on all ranks
            return False
        if (needed := self.exchange.needed_rows) > self.exchange.rows:
            self._rows_per_splat = ROWS_HEADROOM * needed / self.exchange.columns
        with all_or_none(self.ranks, self.rasterizer.backend):
            self.allocate()
            self.rasterizer.grow_if_overflowed(state)
        return True

    def rounds(self, count: int) -> list[range]:
        """The first `count` views of a batch in rounds; in each round, every rank renders at most one."""
        return [range(first, min(first + self.ranks.size, count)) for first in range(0, count, self.ranks.size)]

    def num_own(self, count: int) -> int:
        """Number of the first `count` views of a batch that this rank renders."""
        return len(range(self.ranks.rank, count, self.ranks.size))

    def begin(self, count: int, name: str, *source: DeviceArray) -> None:
        """Queue the choice of the next `count` views by a kernel of begin_step.cu, from the arrays `source`."""
        sent, views, cameras = self.exchange.sent, self.exchange.views, self.rasterizer.cameras.array
        messages = count, self.ranks.rank, sent.shape[1], sent
        kernel = self.rasterizer.backend.kernel("optim/begin_step", name)
        kernel((1,), (THREADS,), self.state.array, *source, cameras, *messages, views)

    def project(self, views: range, dropout: float, own: bool) -> None:
        """Queue the projection of own splats into those of `views` that this rank renders, or into the others."""
        raster, splats = self.rasterizer, self.model.splats
        for b in views:
            if (b % self.ranks.size == self.ranks.rank) == own:
                self.exchange.project(b, splats, raster.cameras, self.state, raster.settings.antialias, dropout)

    def list_first_tiles(self) -> None:
        """Queue the tile lists of the rank's first view, whose splats have arrived."""
        self._pipeline.begin(0)

    @contextmanager
    def rendered(self, view: int, count: int) -> Iterator[None]:
        """Queue the rendering of the rank's `view`-th view of `count`, after `list_first_tiles`.

        Concurrently with this and with the work that the block queues, the tile lists of the next view are built. Enter
        it for all views, in order.
        """
        with self._pipeline.view(view, 0, count - 1):
            self.rasterizer.blend(self.model.splats, self.state)
            yield

    def select(self, view: int) -> None:
        """Use the buffers of the rank's `view`-th view from now on."""
        self.rasterizer.select(view % self.rasterizer.settings.num_buffers)

    def _sort(self, view: int, state: IterState) -> None:
        """Queue the reception of a view's splats, and its tile lists."""
        self.select(view)
        raster = self.rasterizer
        self.exchange.receive(view, raster.cameras, state, raster.projection)
        raster.tiles.build(raster.cameras, state, raster.projection)


class Stages:
    """Replays a batch like CapturedGraph, in several stages.

    stages: functions that queue a batch, by name, in this order. launches: launches of the captured stages.
    """

    def __init__(self, rasterizer: Rasterizer) -> None:
        self.launches, self.stages = dict[str, Callable[[], None]](), dict[str, Callable[[], object]]()
        self._rasterizer, self._graphs = rasterizer, list[CapturedGraph]()

    @property
    def current(self) -> bool:
        """See CapturedGraph.current."""
        return all(graph.current for graph in self._graphs)

    def run(self, count: int) -> None:
        """Queue `count` batches."""
        for _ in range(count):
            for queue in self.stages.values():
                queue()

    def add(self, name: str, queue: Callable[[], object]) -> None:
        """Add a stage that is not captured, such as an exchange."""
        self.stages[name] = queue

    def capture(self, name: str, launch: Callable[[], None]) -> None:
        """Add a captured stage."""
        self.launches[name], self.stages[name] = launch, self._captured(launch)

    def queue_projections(
        self, views: RankedViews, count: int, begin: Callable[[], None], dropout: float = 0.0
    ) -> None:
        """Add the stages up to the tile lists of the rank's first of `count` views. begin: queues their choice.

        The first view of each rank comes first. While its splats are transferred, own ones are projected into it; while
        its tile lists are built, which leaves most of the device idle, splats of all other views are projected and
        sent.
        """
        rounds = views.rounds(count)

        def project_others() -> None:
            begin()
            views.project(rounds[0], dropout, own=False)

        def project_own() -> None:
            views.project(rounds[0], dropout, own=True)

        def project_rest() -> None:
            for one in rounds[1:]:
                views.project(one, dropout, own=False)
                views.project(one, dropout, own=True)

        self.capture("project others", project_others)
        self.add("send projections", lambda: views.exchange.begin_projections())
        self.capture("project own", project_own)
        self.add("receive projections", views.ranks.end_exchanges)
        if len(rounds) > 1:
            project = self._captured(project_rest)

            def send_rest() -> None:
                with views.ranks.exchange_stream():
                    project()
                    views.exchange.exchange_projections(range(1, len(rounds)))

            self.add("send other projections", send_rest)
        if views.num_own(count):
            self.capture("list tiles", views.list_first_tiles)
        if len(rounds) > 1:
            self.add("receive other projections", views.ranks.end_exchanges)

    def _captured(self, launch: Callable[[], None]) -> Callable[[], None]:
        self._graphs.append(CapturedGraph(self._rasterizer, launch))
        return functools.partial(self._graphs[-1].run, 1)
