"""All splats of a run on several ranks, each of which holds only its share.

In a round of density control, each rank has the geometry of all splats and takes the same decisions; colours and
moments then move between the ranks, a few rows at a time. Host side of cuda_src/density/shares.cu.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from splat_cli.device import DeviceArray, MemoryCost, launch
from splat_cli.gaussians.splats import OPACITIES, Splats
from splat_cli.model.columns import ROWS_AT_ONCE, copy_columns
from splat_cli.model.model import Model
from splat_cli.ranks.protocol import WHOLE, Ranks, Share, all_or_none

FILE = "density/shares"
NUM_GEOMETRY = OPACITIES.stop  # rows of parameters on which density control decides


class Geometry(Model):
    """Geometry and statistics of all splats in a round of density control, on each rank.

    Instead of colours and moments, splats have numbers: 1 + the index of the splat whose colours or moments they get,
    or 0 for zeros. These are int32 in rows of floats: the last row of `params`, and the only one of `moments`.
    cleared: rows of moments that the round sets to zero.
    """

    def __init__(self, model: Model, num: int, capacity: int) -> None:
        backend = model.backend
        self.backend, self.num_frozen, self.on_device, self.cleared = backend, 0, None, set[int]()
        self.splats = Splats(backend, backend.planes(NUM_GEOMETRY + 1, capacity, NUM_GEOMETRY + 1), num)
        self.moments = backend.planes(1, capacity, 1)
        self._set_stats(backend.planes(2, capacity, 2))
        if model.splats.smooth_3d_sigmas is not None:
            self.splats.smooth_3d_sigmas = backend.planes(1, capacity, 1)
        launch(backend, FILE, "number_splats", num, num, *self.numbers)

    @staticmethod
    def round_cost(smooth_3d: bool) -> MemoryCost:
        """Device memory of a round: all planes, and one more array of parameters if they grow."""
        return MemoryCost(per_splat=4 * (2 * (NUM_GEOMETRY + 1) + 1 + 2 + smooth_3d))

    @property
    def numbers(self) -> tuple[DeviceArray, DeviceArray]:
        """Numbers of the splats for colours and for moments, int32 [capacity]."""
        return self.splats.params[NUM_GEOMETRY].view("int32"), self.moments[0].view("int32")

    def clear_moments_of(self, row: int) -> None:
        self.cleared.add(row)

    def moves(self) -> tuple[bool, bool, bool]:
        """Whether splats get colours of others, moments of others, or no moments. Waits for the device."""
        counts = self.backend.xp.zeros(3, "int32")
        launch(self.backend, FILE, "count_moves", self.num, *self.numbers, self.num, counts)
        colors, moments, none = map(bool, self.backend.download(counts))
        return colors, moments, none


class SharedSplats:
    """`num` splats on all ranks, with room for `capacity`; `model` has the share of this rank.

    All ranks call each method at the same point. SharedMemoryError if memory runs out on one of them.
    """

    def __init__(self, ranks: Ranks, share: Share, model: Model) -> None:
        self.ranks, self.share, self.model, self.backend = ranks, share, model, model.backend
        self.num = self.capacity = 0

    @staticmethod
    def transfer_cost() -> MemoryCost:
        """Device memory of a transfer."""
        return MemoryCost(per_splat=4 * ROWS_AT_ONCE)

    def load(
        self, rows: Sequence[tuple[str, int]], num: int, capacity: int, planes: Mapping[str, Sequence[np.ndarray]]
    ) -> None:
        """Replace all splats by `num` splats; planes and numbers of the given rows, all others are zero.

        planes: on rank 0, rows float32 [num] by names of planes.
        """
        model = self.model
        with all_or_none(self.ranks, self.backend):
            model.splats.num = 0
            model.rebuild(self.share.columns(capacity))
        self.num, self.capacity, model.splats.num = num, capacity, self.share.count(num)
        for name, row in rows:
            own = model.planes()[name][row : row + 1]
            if self.ranks.rank > 0:
                self._receive(own[0, : model.num])
                continue
            whole = self.backend.upload(np.ascontiguousarray(planes[name][row]))[None, None]
            for rank in range(1, self.ranks.size):
                self._send(whole, rank)
            self._take(whole, self.share, own)

    def download(self) -> dict[str, np.ndarray]:
        """All planes on the host of rank 0, float32 [rows, num]; nothing on other ranks."""
        found = dict[str, np.ndarray]()
        with self._transfers() as buffer:
            whole = self.backend.xp.empty((ROWS_AT_ONCE, self.num), "float32") if self.ranks.rank == 0 else None
        for name, planes in self.model.planes().items():
            if whole is not None:
                found[name] = np.empty((len(planes), self.num), np.float32)
            for rows, parts in self._gathered(planes, buffer):
                if whole is not None:
                    self._take(parts, WHOLE, whole)
                    found[name][rows] = self.backend.download(whole[: parts.shape[1]])
        return found

    def splats(self) -> Splats | None:
        """All splats on the device of rank 0; None on other ranks."""
        own, found = self.model.planes(), dict[str, DeviceArray]()
        names = own.keys() & {"params", "filters"}
        with self._transfers() as buffer:
            if self.ranks.rank == 0:
                found = {name: self.backend.xp.empty((len(own[name]), self.num), "float32") for name in names}
        for name in sorted(names):
            for rows, parts in self._gathered(own[name], buffer):
                if found:
                    self._take(parts, WHOLE, found[name][rows])
        if not found:
            return None
        splats = Splats(self.backend, found["params"], self.num)
        splats.smooth_3d_sigmas = found.get("filters")
        return splats

    @contextmanager
    def geometry(self) -> Iterator[Model]:
        """The geometry of all splats, for a block that changes it equally on all ranks; then moves colours and moments.

        A MemoryError in the block leaves the splats as they were.
        """
        with self._transfers() as buffer:
            whole = Geometry(self.model, self.num, self.capacity)
        self.gather_geometry(whole, buffer)
        with all_or_none(self.ranks, self.backend):
            yield whole
        self.spread(whole, buffer)

    def gather_geometry(self, whole: Geometry, buffer: DeviceArray) -> None:
        """Queue the transfers that fill the geometry of all splats."""
        targets = {**whole.planes(), "params": whole.splats.params[:NUM_GEOMETRY]}
        for name in ("params", "stats", "filters"):
            if name in targets:
                for rows, parts in self._gathered(self.model.planes()[name][: len(targets[name])], buffer):
                    self._take(parts, WHOLE, targets[name][rows])

    def spread(self, whole: Geometry, buffer: DeviceArray) -> None:
        """Take this rank's share of the splats after a round."""
        model, num, columns = self.model, whole.num, self.share.columns(whole.splats.capacity)
        with all_or_none(self.ranks, self.backend):
            moved_colors, moved_moments, has_cleared = whole.moves()
            model.reserve(columns, columns)
        of_colors, of_moments = whole.numbers
        for name, planes in model.planes().items():
            if name in ("params", "stats", "filters"):
                changed = whole.planes()[name][: min(NUM_GEOMETRY, len(planes))]
                self._take(changed[None], self.share, planes, num=num)
        if moved_colors:
            self._exchange(model.splats.params[NUM_GEOMETRY:], of_colors, num, buffer)
        if moved_moments:
            self._exchange(model.moments, of_moments, num, buffer)
        elif has_cleared:
            self._take(None, self.share, model.moments, of_moments, num)
        for row in whole.cleared:
            model.moments[row, : self.share.count(num)] = 0
        self.num, self.capacity, model.splats.num = num, whole.splats.capacity, self.share.count(num)
        if columns < model.splats.capacity:
            with all_or_none(self.ranks, self.backend):
                model.rebuild(columns)

    def _exchange(self, planes: DeviceArray, numbers: DeviceArray, num: int, buffer: DeviceArray) -> None:
        """Replace the columns of this rank's share of `num` splats by those with the given numbers, of any rank."""
        for rows, parts in self._gathered(planes, buffer):
            self._take(parts, self.share, planes[rows], numbers, num)

    @contextmanager
    def _transfers(self) -> Iterator[DeviceArray]:
        """A buffer for `_gathered`, and a block that allocates what the transfers fill."""
        size = self.ranks.size * ROWS_AT_ONCE * self.share.columns(self.num)
        with all_or_none(self.ranks, self.backend):
            yield self.backend.xp.empty(size, "float32")

    def _gathered(self, planes: DeviceArray, buffer: DeviceArray) -> Iterator[tuple[slice, DeviceArray]]:
        """A few rows of the planes at a time, and their columns on all ranks, float32 [ranks, rows, columns]."""
        size, columns = self.ranks.size, self.share.columns(self.num)
        for first in range(0, len(planes), ROWS_AT_ONCE):
            some = planes[first : first + ROWS_AT_ONCE]
            parts = buffer[: size * len(some) * columns].reshape(size, len(some), columns)
            own = parts[self.ranks.rank]
            copy_columns(self.backend, some, self.model.num, out=own)
            self.ranks.exchange([(self.backend.xp.broadcast_to(own, parts.shape), parts)])
            yield slice(first, first + len(some)), parts

    def _take(
        self,
        parts: DeviceArray | None,
        share: Share,
        planes: DeviceArray,
        numbers: DeviceArray | None = None,
        num: int | None = None,
    ) -> None:
        """Fill the columns of a share of `num` splats, by default all, from parts float32 [ranks, rows, columns]."""
        num, backend = self.num if num is None else num, self.backend
        shape = (1, len(planes), 0) if parts is None else parts.shape
        arrays = numbers, parts, shape[0], shape[2], planes.shape[1], planes
        launch(backend, FILE, "take_share", share.count(num), share.struct, num, *arrays, rows=shape[1])

    def _send(self, row: DeviceArray, rank: int) -> None:
        share = Share(rank, self.ranks.size)
        part = self.backend.xp.empty((1, share.count(self.num)), "float32")
        if part.size:
            self._take(row, share, part)
            self.ranks.send(part, rank)

    def _receive(self, own: DeviceArray) -> None:
        if len(own):
            self.ranks.receive(own, 0)
