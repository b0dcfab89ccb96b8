"""Batches on several ranks: each rank projects its own splats into all views and renders its own views.

`Exchange` sends projected splats and their gradients: host side of project_share.cu, receive_splats.cu and exchange.cu
in cuda_src/raster. `Stages` queues a batch as captured graphs, with exchanges between and concurrent with them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from splat_cli.device import Backend, DeviceArray, Kernel, MemoryCost, ceil_div, check_arrays
from splat_cli.gaussians.splats import Splats
from splat_cli.ranks.protocol import RANK_BLOCK, Ranks, Share, all_or_none
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import (
    BATCH_VIEW_BYTES,
    LANES,
    SPLAT_SUMS,
    THREADS,
    ProjectedBatch,
    Projection,
    dropout_defines,
    smooth_3d_array,
)
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.train.step import BatchStep, CapturedGraph, ViewPipeline

PROJECTED = 10  # floats of a projected splat, as in cuda_src/raster/visible.cuh
VIEW_RESULT_BYTES = 12  # size of `struct ViewResult`
PLANNED_ROWS = 0.5  # rows per splat for which memory is planned: a view rarely shows more than half

# Mirrors `struct ViewMessages` in cuda_src/raster/visible.cuh.
VIEW_MESSAGES_DTYPE = np.dtype([
    ("own", np.uint64), ("received", np.uint64), ("stride", np.int32), ("rank", np.int32), ("num_ranks", np.int32),
], align=True)  # fmt: skip


class Exchange:
    """Buffers of a batch on one rank: view b of the batch is rendered by rank b % ranks, as its view b // ranks.

    Row b of an array to send goes to the rank that renders view b. Row k * ranks + r of a received array belongs to the
    rank's k-th view and comes from rank r. A rank's own part of its own views is not transferred: `receive` reads it
    from the array to send, and `send` writes it to the received gradients.

    sent: float32 [batch, ...], the messages to send (cuda_src/raster/visible.cuh). whole: input of `project_backward`
    for the whole batch, after the exchange of gradients. capacity: for all splats. rows: number of a rank's visible
    splats that a message can hold, the same on all ranks; if a view has more, the batch changes nothing.
    """

    def __init__(self, backend: Backend, ranks: Ranks, share: Share, capacity: int, batch: int, rows: int) -> None:
        self.backend, self.ranks, self.share, self.capacity, self.rows = backend, ranks, share, capacity, rows
        self.columns, empty, zeros = share.columns(capacity), backend.xp.empty, backend.xp.zeros
        columns, self.num_views = self.columns, batch // ranks.size
        self._rounds = [slice(first, first + ranks.size) for first in range(0, batch, ranks.size)]
        self._stride = index_words(columns) + PROJECTED * rows
        self._splats = [zeros((batch, self._stride), "float32") for _ in range(2)]  # sent, received
        self._sums = [empty((batch, rows, SPLAT_SUMS), "float32") for _ in range(2)]
        self._results = [zeros((batch, VIEW_RESULT_BYTES), "uint8") for _ in range(2)]
        self.views = zeros((batch, BATCH_VIEW_BYTES), "uint8")
        self._needed_rows = zeros(1, "int32")
        depths, colors = empty((batch, columns), "float32"), empty((batch, columns, 4), "float32")
        self.sent = self._splats[0]
        self.whole = ProjectedBatch(
            depths,
            colors,
            self._sums[1],
            views=self.views,
            share=share,
            sent=self.sent,
            sent_size=(rows, self._stride),
        )

    @staticmethod
    def memory_cost(batch: int, num_ranks: int) -> MemoryCost:
        """Device memory of the buffers, with messages of PLANNED_ROWS."""
        words = 1 + 4 + 2 * PLANNED_ROWS * (PROJECTED + SPLAT_SUMS) + 2 * index_words(RANK_BLOCK) / RANK_BLOCK
        return MemoryCost(per_splat=4 * words * batch / num_ranks)

    @property
    def needed_rows(self) -> int:
        """Rows that a view has needed so far; the same on all ranks. Waits for the device."""
        return int(self.backend.download(self._needed_rows)[0])

    def project(
        self, b: int, splats: Splats, cameras: CameraTable, state: IterState, antialias: bool, dropout: float = 0.0
    ) -> None:
        """Queue the projection of the rank's splats into view b of the batch, see `project` in render/project.py.

        Depths and colours remain on the rank, in `whole`; sent[b] gets the visible splats, as far as it has room. Adds
        to the number of visible splats.
        """
        depths, colors = self.whole.depths[b], self.whole.colors[b]
        shapes = {"depths": (depths, "float32", "S"), "colors": (colors, "float32", "S 4")}
        check_arrays("project_share", params=(splats.params, "float32", "R C"), **shapes, **smooth_3d_array(splats))
        defines = cameras.defines | dropout_defines(dropout)
        inputs = splats.params, splats.capacity, state.array, self.views[b], int(antialias), float(dropout)
        layout, outputs = (self.share.struct, self.columns, self.rows), (depths, colors, self.sent[b])
        self.backend.kernel("raster/project_share", "project_share", **defines)(
            (ceil_div(self.columns, THREADS),), LANES, *inputs, *layout, splats.smooth_3d_sigmas, *outputs
        )

    def begin_projections(self) -> None:
        """Begin to send projections into the ranks' first views, concurrent with work queued later."""
        self.ranks.begin_exchange([self._pair_of(self._splats, 0)])

    def exchange_projections(self, views: range) -> None:
        """Send projections into the ranks' `views`-th views, in stream order."""
        self.ranks.exchange([self._pair_of(self._splats, view) for view in views])

    def begin_results(self) -> None:
        """Begin to send the results of all views to all ranks, concurrent with work queued later."""
        self.ranks.begin_exchange([self._pair_of(self._results, view) for view in range(self.num_views)])

    def begin_gradients(self, view: int) -> None:
        """Begin to send gradients of the ranks' `view`-th views to the splats' owners, concurrent with later work."""
        self.ranks.begin_exchange([self._pair_of(self._sums, view)])

    def receive(self, view: int, cameras: CameraTable, state: IterState, out: Projection) -> None:
        """Queue the outputs of `project` from the splats that the ranks have sent for this rank's `view`-th view.

        `state` is the state of the view; after `begin_batch`, of the first one.
        """
        if view > 0:
            b = view * self.ranks.size + self.ranks.rank
            self.backend.kernel("optim/begin_step", "restore_view")((1,), (1,), state.array, self.views[b])
        self.backend.kernel("raster/receive_splats", "receive_splats")(
            (ceil_div(self.capacity, THREADS),), LANES,
            cameras.array, state.array, self.capacity, self.columns, self.rows, self._view_messages(view),
            out.depths, out.means2d, out.conic_opacity, out.colors, out.tile_counts, out.large_splats, out.d_splats,
        )  # fmt: skip

    def send(self, view: int, state: IterState, projection: Projection) -> None:
        """Queue the gradients of the rank's `view`-th view to be sent."""
        sent, kept = self._pair_of(self._sums, view)
        messages, shape = self._view_messages(view), (self.columns, self.rows)
        self._kernel("send_sums")(
            (ceil_div(self.capacity, THREADS),),
            (THREADS,),
            state.array,
            messages,
            *shape,
            projection.d_splats,
            kept,
            sent,
        )

    def send_result(self, view: int, state: IterState) -> None:
        """Queue the result of the rank's `view`-th view to be sent: its loss, and whether it exceeded the buffers."""
        sent, kept = self._pair_of(self._results, view)
        arrays = state.array, self._view_messages(view), self.columns, self.rows, kept, sent
        self._kernel("send_result")((1,), (1,), *arrays)

    def agree(self, state: IterState, count: int) -> None:
        """Queue the losses of the first `count` views for the update; an overflow of one sets `overflowed` on all."""
        arrays = self._results[1], self.views, self._needed_rows
        self._kernel("agree")((1,), (1,), state.array, count, *arrays)

    def _view_messages(self, view: int) -> np.ndarray:
        """`struct ViewMessages` of the rank's `view`-th view."""
        first, rank, address = view * self.ranks.size, self.ranks.rank, self.backend.address
        own, received = self.sent[first + rank], self._splats[1][first]
        return np.array((address(own), address(received), self._stride, rank, self.ranks.size), VIEW_MESSAGES_DTYPE)

    def _pair_of(self, arrays: list[DeviceArray], view: int) -> tuple[DeviceArray, DeviceArray]:
        """Sent and received rows of the ranks' `view`-th views, each [ranks, ...]."""
        return arrays[0][self._rounds[view]], arrays[1][self._rounds[view]]

    def _kernel(self, name: str) -> Kernel:
        return self.backend.kernel("raster/exchange", name)


def index_words(columns: int) -> int:
    """Words of a message before its splats, as in cuda_src/raster/visible.cuh."""
    return 4 + columns // 16


FIRST_ROWS = 1 / 8  # rows of messages per splat, until a view needs more
ROWS_HEADROOM = 1.1  # when messages grow


class ShardedViews:
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
        self, views: ShardedViews, count: int, begin: Callable[[], None], dropout: float = 0.0
    ) -> None:
        """Add the stages up to the tile lists of the rank's first of `count` views. begin: queues their choice.

        The first view of each rank comes first. While other ranks' splats for it are transferred, the rank projects its
        own ones into it. While its tile lists are built, which leaves most of the device idle, the splats of all other
        views are projected and sent.
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
