"""Projected splats and their gradients on the way between ranks: host side of cuda_src/raster/send_splats.cu,
receive_splats.cu and exchange.cu."""

from __future__ import annotations

from typing import Any

import numpy as np

from splat_cli.device import Backend
from splat_cli.device.memory_cost import MemoryCost
from splat_cli.ranks.protocol import Ranks
from splat_cli.ranks.share import RANK_BLOCK, Share
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import BATCH_VIEW_BYTES, LANES, SLOT_LAYOUT_DTYPE, SPLAT_SUMS, THREADS, Projection
from splat_cli.render.tiles import SCAN_THREADS

PROJECTED = 10  # floats of a projected splat, as in cuda_src/raster/visible.cuh
PLANNED_ROWS = 0.5  # of the splats, for which memory is planned: a view seldom shows more
VIEW_RESULT_BYTES = 12  # size of `struct ViewResult`


class Exchange:
    """Buffers of a batch on one rank: view b of the batch is shown by rank b % ranks, as its view b // ranks.

    slots: projections of the rank's own splats into the views of the batch; means2d and conic_opacity are common to
    all, so that `send_splats` follows each projection. whole: what `project_backward` takes of all of them, after
    `exchange_gradients`. capacity: of all splats. rows: number of visible splats of a rank for which there is room in
    each view, the same on all ranks; a view with more makes the batch a no-op.
    """

    def __init__(self, backend: Backend, ranks: Ranks, share: Share, capacity: int, batch: int, rows: int) -> None:
        self.backend, self.ranks, self.share, self.capacity, self.rows = backend, ranks, share, capacity, rows
        self.num_views, self.columns = batch // ranks.size, share.columns(capacity)
        columns, shape, empty, zeros = self.columns, (ranks.size, self.num_views), backend.xp.empty, backend.xp.zeros
        self._stride = index_words(columns) + PROJECTED * rows
        self._splats = [zeros((*shape, self._stride), "float32") for _ in range(2)]  # sent, received
        self._sums = [empty((*shape, rows, SPLAT_SUMS), "float32") for _ in range(2)]
        self._results = [zeros((*shape, VIEW_RESULT_BYTES), "uint8") for _ in range(2)]
        self.views = zeros((batch, BATCH_VIEW_BYTES), "uint8")
        self._needed_rows = zeros(1, "int32")
        depths, colors = empty((*shape, columns), "float32"), empty((*shape, columns, 4), "float32")
        common = {"means2d": empty((columns, 2), "float32"), "conic_opacity": empty((columns, 4), "float32")}
        unused: dict[str, Any] = dict.fromkeys(("tile_counts", "large_splats", "d_splats", "d_rays"))
        places = [(b % ranks.size, b // ranks.size) for b in range(batch)]
        self.slots = [Projection(depths=depths[at], colors=colors[at], **common, **unused) for at in places]
        self._sent_slots = [self._splats[0][at] for at in places]
        self.whole = Projection(
            depths=depths.reshape(batch, columns), means2d=None, conic_opacity=None,
            colors=colors.reshape(batch, columns, 4), tile_counts=None, large_splats=None,
            d_splats=self._sums[1].reshape(batch, rows, SPLAT_SUMS), d_rays=empty((batch, 6, columns), "float32"),
            views=self.views, sent=self._splats[0],
            layout=np.array((ranks.size, self.num_views, columns, rows, self._stride), SLOT_LAYOUT_DTYPE),
        )  # fmt: skip

    @staticmethod
    def memory_cost(batch: int, num_ranks: int) -> MemoryCost:
        """Device memory of the buffers, with slots of PLANNED_ROWS."""
        words = 1 + 4 + 6 + 2 * PLANNED_ROWS * (PROJECTED + SPLAT_SUMS) + 2 * index_words(RANK_BLOCK) / RANK_BLOCK
        return MemoryCost(per_splat=4 * (words * batch + 2 + 4) / num_ranks)

    @property
    def needed_rows(self) -> int:
        """Rows that a view has needed so far; the same on all ranks. Waits for the device."""
        return int(self.backend.download(self._needed_rows)[0])

    def send_splats(self, slot: int, state: IterState) -> None:
        """Queue the visible splats of a slot, just projected, to be sent."""
        projection, sent, columns = self.slots[slot], self._sent_slots[slot], self.columns
        num_blocks, threads = columns // RANK_BLOCK, SCAN_THREADS[self.backend.name]
        self.backend.kernel("raster/send_splats", "find_visible")(
            (num_blocks,), LANES, state.array, self.share.struct, columns, projection.depths, sent,
        )  # fmt: skip
        begins = sent[: num_blocks + 1].view("uint32")
        self._kernel("number_visible")((1,), (threads,), state.array, num_blocks, begins)
        self.backend.kernel("raster/send_splats", "send_splats")(
            (columns // THREADS,), LANES,
            state.array, columns, self.rows, projection.depths, projection.means2d, projection.conic_opacity,
            projection.colors, sent,
        )  # fmt: skip

    def exchange_projections(self) -> None:
        """Send each view's projections to the rank that shows it."""
        self.ranks.exchange([(self._splats[0], self._splats[1])])

    def exchange_gradients(self) -> None:
        """Send the gradients of each view's splats to their owners, and its loss to all."""
        self.ranks.exchange([(self._sums[0], self._sums[1]), (self._results[0], self._results[1])])

    def exchange_results(self) -> None:
        """Send the results of each view to all, where no gradients are asked for."""
        self.ranks.exchange([(self._results[0], self._results[1])])

    def receive(self, view: int, cameras: CameraTable, state: IterState, out: Projection) -> None:
        """Queue what `project` does for all splats, from what the ranks have sent of the rank's `view`-th view."""
        b = view * self.ranks.size + self.ranks.rank
        self.backend.kernel("optim/begin_step", "show_view")((1,), (1,), state.array, self.views[b])
        self.backend.kernel("raster/receive_splats", "receive_splats")(
            (-(-self.capacity // THREADS),), LANES,
            cameras.array, state.array, self.capacity, self.ranks.size, self.columns, self.rows, *self._received(view),
            out.depths, out.means2d, out.conic_opacity, out.colors, out.tile_counts, out.large_splats, out.d_splats,
        )  # fmt: skip

    def send(self, view: int, state: IterState, projection: Projection) -> None:
        """Queue the gradients of the rank's `view`-th view, and its loss, to be sent."""
        sent = self._sums[0].reshape(-1)[view * self.rows * SPLAT_SUMS :]
        self._kernel("send_sums")(
            (-(-self.capacity // THREADS),), (THREADS,),
            state.array, self.ranks.size, self.columns, self.rows, *self._received(view), projection.d_splats,
            self.num_views * self.rows * SPLAT_SUMS, sent,
        )  # fmt: skip
        self.send_result(view, state)

    def send_result(self, view: int, state: IterState) -> None:
        """Queue the loss of the rank's `view`-th view, and whether it exceeded the buffers, to be sent."""
        size, received = self.ranks.size, self._received(view)
        arrays = state.array, size, self.num_views, view, self.columns, self.rows, *received, self._results[0]
        self._kernel("send_result")((1,), (1,), *arrays)

    def agree(self, state: IterState, count: int) -> None:
        """Queue the losses of the first `count` views for the update; an overflow of one sets `overflowed` on all."""
        sizes, arrays = (self.ranks.size, self.num_views, count), (self._results[1], self.views, self._needed_rows)
        self._kernel("agree")((1,), (1,), state.array, *sizes, *arrays)

    def record_view(self, slot: int, cameras: CameraTable, state: IterState) -> None:
        """Queue a copy of the current view's camera and background to a slot."""
        self.backend.kernel("optim/begin_step", "record_view")((1,), (1,), cameras.array, state.array, self.views[slot])

    def _received(self, view: int) -> tuple[int, Any]:
        """Floats from rank to rank, and slots of the rank's `view`-th view."""
        return self.num_views * self._stride, self._splats[1].reshape(-1)[view * self._stride :]

    def _kernel(self, name: str) -> Any:
        return self.backend.kernel("raster/exchange", name)


def copy_share(backend: Backend, share: Share, num: int, planes: Any, part: Any, gather: bool) -> None:
    """Copy the columns of a share between planes [rows, capacity] of `num` splats and part [rows, columns].

    gather: into the planes, else out of them.
    """
    blocks = -(-part.shape[1] // THREADS)
    backend.kernel("raster/exchange", "copy_share")(
        (blocks, len(planes)), (THREADS,),
        share.struct, num, planes.shape[1], part.shape[1], int(gather), planes, part,
    )  # fmt: skip


def index_words(columns: int) -> int:
    """Words of a slot before its splats, as in cuda_src/raster/visible.cuh."""
    return (columns // RANK_BLOCK + 4) // 4 * 4 + columns // 16
