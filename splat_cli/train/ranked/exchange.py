"""Exchange of projected splats and their gradients between ranks: host side of cuda_src/raster/project_share.cu,
receive_splats.cu and exchange.cu."""

from __future__ import annotations

import numpy as np

from splat_cli.device import Backend, DeviceArray, Kernel, MemoryCost, ceil_div, check_arrays
from splat_cli.gaussians.splats import Splats
from splat_cli.ranks.protocol import Ranks
from splat_cli.ranks.share import RANK_BLOCK, Share
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
