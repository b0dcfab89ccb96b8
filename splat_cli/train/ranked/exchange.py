"""Projected splats and their gradients on the way between ranks: host side of cuda_src/raster/receive_splats.cu and
exchange.cu."""

from __future__ import annotations

from typing import Any

import numpy as np

from splat_cli.device import Backend
from splat_cli.device.memory_cost import MemoryCost
from splat_cli.ranks.protocol import Ranks
from splat_cli.ranks.share import Share
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import BATCH_VIEW_BYTES, LANES, SLOT_LAYOUT_DTYPE, SPLAT_SUMS, THREADS, Projection

PROJECTED = 11  # floats of a projected splat, as in cuda_src/raster/receive_splats.cu
VIEW_RESULT_BYTES = 8  # size of `struct ViewResult`


class Exchange:
    """Buffers of a batch on one rank: view b of the batch is shown by rank b % ranks, as its view b // ranks.

    slots: projections of the rank's own splats into the views of the batch. whole: what `project_backward` takes of all
    of them, after `exchange_gradients`. capacity: of all splats.
    """

    def __init__(self, backend: Backend, ranks: Ranks, share: Share, capacity: int, batch: int) -> None:
        self.backend, self.ranks, self.capacity = backend, ranks, capacity
        self.num_views, columns = batch // ranks.size, share.columns(capacity)
        self.columns, shape, empty = columns, (ranks.size, self.num_views), backend.xp.empty
        self._projected = [empty((*shape, PROJECTED * columns), "float32") for _ in range(2)]  # sent, received
        self._sums = [empty((*shape, columns, SPLAT_SUMS), "float32") for _ in range(2)]
        self._results = [backend.xp.zeros((*shape, VIEW_RESULT_BYTES), "uint8") for _ in range(2)]
        self.views = backend.xp.zeros((batch, BATCH_VIEW_BYTES), "uint8")
        own = self._projected[0]
        self.slots = [_slot(own[b % ranks.size, b // ranks.size], columns) for b in range(batch)]
        stride = PROJECTED * columns
        self.whole = Projection(
            depths=own.reshape(-1), means2d=None, conic_opacity=None, colors=own.reshape(-1)[7 * columns :],
            tile_counts=None, large_splats=None, d_splats=self._sums[1].reshape(batch, columns, SPLAT_SUMS),
            d_rays=empty((batch, 6, columns), "float32"), views=self.views,
            layout=np.array((ranks.size, self.num_views, columns, stride, stride // 4), SLOT_LAYOUT_DTYPE),
        )  # fmt: skip

    @staticmethod
    def memory_cost(batch: int, num_ranks: int) -> MemoryCost:
        """Device memory of the buffers."""
        words = 2 * (PROJECTED + SPLAT_SUMS) + 6
        return MemoryCost(per_splat=4 * words * batch / num_ranks)

    def exchange_projections(self) -> None:
        """Send each view's projections to the rank that shows it."""
        self.ranks.exchange([(self._projected[0], self._projected[1])])

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
        stride = self.num_views * PROJECTED * self.columns
        received = self._projected[1].reshape(-1)[view * PROJECTED * self.columns :]
        self.backend.kernel("raster/receive_splats", "receive_splats")(
            (-(-self.capacity // THREADS),), LANES,
            cameras.array, state.array, self.capacity, self.ranks.size, self.columns, stride,
            received, out.depths, out.means2d, out.conic_opacity, out.colors, out.tile_counts, out.large_splats,
            out.d_splats,
        )  # fmt: skip

    def send(self, view: int, state: IterState, projection: Projection) -> None:
        """Queue the gradients of the rank's `view`-th view, and its loss, to be sent."""
        size, offset = self.ranks.size, view * self.columns * SPLAT_SUMS
        stride, sent = self.num_views * self.columns * SPLAT_SUMS, self._sums[0].reshape(-1)[offset:]
        self._kernel("send_sums")(
            (-(-self.capacity // THREADS),), (THREADS,),
            state.array, size, stride, projection.depths, projection.d_splats, sent,
        )  # fmt: skip
        self.send_result(view, state)

    def send_result(self, view: int, state: IterState) -> None:
        """Queue the loss of the rank's `view`-th view, and whether its pairs exceeded the buffers, to be sent."""
        arrays = state.array, self.ranks.size, self.num_views, view, self._results[0]
        self._kernel("send_result")((1,), (1,), *arrays)

    def agree(self, state: IterState, count: int) -> None:
        """Queue the losses of the first `count` views for the update; an overflow of one sets `overflowed` on all."""
        arrays = state.array, self.ranks.size, self.num_views, count, self._results[1], self.views
        self._kernel("agree")((1,), (1,), *arrays)

    def record_view(self, slot: int, cameras: CameraTable, state: IterState) -> None:
        """Queue a copy of the current view's camera and background to a slot."""
        self.backend.kernel("optim/begin_step", "record_view")((1,), (1,), cameras.array, state.array, self.views[slot])

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


def _slot(floats: Any, columns: int) -> Projection:
    c = columns
    return Projection(
        depths=floats[:c], means2d=floats[c : 3 * c].reshape(c, 2), conic_opacity=floats[3 * c : 7 * c].reshape(c, 4),
        colors=floats[7 * c :].reshape(c, 4), tile_counts=None, large_splats=None, d_splats=None, d_rays=None,
    )  # fmt: skip
