"""Transfer of splats between rank 0, which holds all splats, and their owners: whole shares, or a few changed splats.

Host side of copy_share and take_columns in cuda_src/raster/exchange.cu.
"""

from __future__ import annotations

from collections.abc import Sequence

from splat_cli.device import Backend, DeviceArray
from splat_cli.device.launch import ceil_div
from splat_cli.model.columns import copy_columns
from splat_cli.model.model import Model
from splat_cli.ranks.protocol import Ranks
from splat_cli.ranks.share import Share
from splat_cli.render.iter_state import ITER_STATE_DTYPE
from splat_cli.render.project import THREADS

FILE = "raster/exchange"


class ShareBuffers:
    """Buffers of rank 0: for a share's planes, one array at a time, and for the iteration states of all ranks."""

    def __init__(self, ranks: Ranks, model: Model) -> None:
        rows, zeros = [len(planes) for planes in model.planes().values()], model.backend.xp.zeros
        buffer = zeros((max(rows), Share(0, ranks.size).columns(model.splats.capacity)), "float32")
        self._ranks, self._model = ranks, model
        self._parts = [buffer[:num] for num in rows]
        self._states = zeros((ranks.size, ITER_STATE_DTYPE.itemsize // 4), "uint32")

    def send(self) -> None:
        """Queue the sending of all shares; other ranks call `receive_share`."""
        for rank in range(1, self._ranks.size):
            for planes, part in zip(self._model.planes().values(), self._parts, strict=True):
                self._copy(rank, planes, part, gather=False)
                self._ranks.send(part, rank)

    def receive(self) -> None:
        """Queue the reception of the shares that other ranks send with `send_share`."""
        for rank in range(1, self._ranks.size):
            for planes, part in zip(self._model.planes().values(), self._parts, strict=True):
                self._ranks.receive(part, rank)
                self._copy(rank, planes, part, gather=True)
            self._ranks.receive(self._states[rank], rank)

    def skipped_updates(self) -> int:
        """Number of skipped updates, summed over the ranks whose shares were received. Waits for the device."""
        states = self._model.backend.download(self._states).view(ITER_STATE_DTYPE)
        return int(states["skipped_updates"].sum())

    def _copy(self, rank: int, planes: DeviceArray, part: DeviceArray, gather: bool) -> None:
        copy_share(self._model.backend, Share(rank, self._ranks.size), self._model.num, planes, part, gather)


def send_share(ranks: Ranks, model: Model, state: DeviceArray) -> None:
    """On a rank other than 0: queue its share and `state`, its `struct IterState` (uint32), to be sent to rank 0."""
    for planes in model.planes().values():
        ranks.send(planes, 0)
    ranks.send(state, 0)


def receive_share(ranks: Ranks, model: Model) -> None:
    """On a rank other than 0: queue the reception of its share from rank 0."""
    for planes in model.planes().values():
        ranks.receive(planes, 0)


class ChangedSplats:
    """Buffers for all rows of `count` splats, with repetition. Rank 0 sends them to every rank, which keeps its own."""

    def __init__(self, model: Model, count: int) -> None:
        rows = sum(len(planes) for planes in model.planes().values())
        self._model, empty = model, model.backend.xp.empty
        self._index, self._values = empty(count, "int64"), empty((rows, count), "float32")

    @staticmethod
    def are_few(model: Model, num_ranks: int, count: int) -> bool:
        """Whether the buffers of `count` splats take at most as much memory as ShareBuffers."""
        rows = [len(planes) for planes in model.planes().values()]
        return sum(rows) * count <= max(rows) * Share(0, num_ranks).columns(model.splats.capacity)

    def send(self, ranks: Ranks, indices: Sequence[DeviceArray]) -> None:
        """On rank 0: queue splats to be sent. indices: int64 [K] each, `count` in total."""
        first = 0
        for index in indices:
            self._index[first : first + len(index)] = index
            first += len(index)
        for planes, values in self._planes_and_values():
            copy_columns(self._model.backend, planes, first, self._index, out=values)
        for rank in range(1, ranks.size):
            ranks.send(self._index, rank)
            ranks.send(self._values, rank)

    def receive(self, ranks: Ranks, share: Share) -> None:
        """On a rank other than 0: queue the reception, and the replacement of the splats that `share` owns."""
        ranks.receive(self._index, 0)
        ranks.receive(self._values, 0)
        for planes, values in self._planes_and_values():
            take_columns(self._model.backend, share, self._index, values, planes)

    def _planes_and_values(self) -> list[tuple[DeviceArray, DeviceArray]]:
        found, first = list[tuple[DeviceArray, DeviceArray]](), 0
        for planes in self._model.planes().values():
            found.append((planes, self._values[first : first + len(planes)]))
            first += len(planes)
        return found


def copy_share(backend: Backend, share: Share, num: int, planes: DeviceArray, part: DeviceArray, gather: bool) -> None:
    """Copy the columns of a share between planes [rows, capacity] of `num` splats and part [rows, columns].

    gather: from part to planes; else from planes to part.
    """
    grid, columns = (ceil_div(part.shape[1], THREADS), len(planes)), (planes.shape[1], part.shape[1])
    backend.kernel(FILE, "copy_share")(grid, (THREADS,), share.struct, num, *columns, int(gather), planes, part)


def take_columns(backend: Backend, share: Share, index: DeviceArray, values: DeviceArray, part: DeviceArray) -> None:
    """Replace the splats `index` int64 [K] that a share owns, in part [rows, columns], by values [rows, K]."""
    count = len(index)
    backend.kernel(FILE, "take_columns")(
        (ceil_div(count, THREADS), len(part)), (THREADS,), share.struct, index, count, values, part.shape[1], part
    )
