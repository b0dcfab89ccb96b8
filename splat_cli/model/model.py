"""Trainable splats with their Adam moments and statistics; insertion and removal of splats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from splat_cli.device import Backend, DeviceArray, MemoryCost, ceil_div
from splat_cli.errors import ShapeError
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.morton import curve_bounds, device_curve_positions
from splat_cli.gaussians.splats import MEANS, Splats, check_capacity, num_rows
from splat_cli.model.columns import (
    clear_columns,
    copy_columns,
    download_columns,
    list_slots,
    mark_nonfinite,
    partition,
    remove_columns,
    reorder_columns,
)


def zero_moments(splats: Splats, missing: int = 0, rows_on_device: int | None = None) -> DeviceArray:
    """First and second moments of the parameters, float32 [rows, columns], in the order of the splats' planes.

    A word has both as bfloat16 (cuda_src/optim/moments.cuh); a word of zeros has zero moments. View-dependent colours
    have none: their steps use the second moment of the constant colour. missing: number of splats at the beginning
    without moments. rows_on_device: see Backend.planes; default all.
    """
    rows = num_moments(splats.num_features)
    return splats.backend.planes(rows, splats.capacity - missing, rows_on_device or rows)


def num_moments(num_features: int) -> int:
    """Number of parameters of a splat that have moments."""
    return num_rows(0, num_features)


def packed_moments(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Words of first and second moments, float32 of any shape, rounded to the nearest bfloat16."""
    low, high = (np.ascontiguousarray(array).view(np.uint32) + np.uint32(0x8000) >> 16 for array in (first, second))
    return (high << 16 | low).view(np.float32)


@dataclass(frozen=True)
class RowsOnDevice:
    """Number of rows of the parameters and of moments that stay on the device; others are on the host.

    Kernels access rows on the host directly (Backend.planes). Parameters on the host are view-dependent
    colours, which a step reads and writes only for visible splats; moments are read and written once per update.
    """

    params: int
    moments: int

    def of(self, name: str, rows: int) -> int:
        """Number of rows on the device of the plane `name` (Model.planes), which has `rows` rows."""
        return self.params if name == "params" else self.moments if name == "moments" else rows


WARP = 32  # splats
GROWTH = 1.5  # growth factor of an exceeded capacity
GRAIN = 4096  # capacities are multiples of this
BOUNDS_SAMPLE = 65_536  # splats sampled for the bounding box of the curve


class Model:
    """Splats, moments and statistics in arrays of a common capacity; moments and statistics lack frozen splats.

    stats: float32 [2, capacity - num_without_moments], sum of screen-space gradients and number of views since the last
    `clear_stats`; for strategies that collect neither, the second row is `last_seen`, the last step in which each
    splat's colour had a gradient (density/operations.py).
    smooth_3d: allocate `Splats.smooth_3d_sigmas`, initially zero. num_frozen: this number of splats at the beginning
    are rendered but never changed, moved to another column or removed. sh_degree and num_features: see
    Splats.from_arrays. on_device: rows that are not in host memory, or None for all.
    """

    def __init__(
        self,
        backend: Backend,
        arrays: SplatArrays,
        capacity: int,
        *,
        smooth_3d: bool = False,
        num_frozen: int = 0,
        sh_degree: int | None = None,
        num_features: int = 0,
        on_device: RowsOnDevice | None = None,
    ) -> None:
        self.backend, self.num_frozen, self.on_device = backend, num_frozen, on_device
        params, moments = (on_device.params, on_device.moments) if on_device else (None, None)
        columns = rounded_capacity(max(capacity, len(arrays)))
        self.splats = Splats.from_arrays(backend, arrays, columns, sh_degree, num_features, params)
        self.moments = zero_moments(self.splats, self.num_without_moments, moments)
        self._set_stats(backend.xp.zeros((2, self.splats.capacity - self.num_without_moments), "float32"))
        if smooth_3d:
            self.splats.smooth_3d_sigmas = backend.xp.zeros((1, self.splats.capacity), "float32")

    @staticmethod
    def memory_cost(
        sh_degree: int,
        smooth_3d: bool,
        num_features: int = 0,
        on_device: RowsOnDevice | None = None,
        grows: bool = True,
    ) -> MemoryCost:
        """Device memory of all planes, and of one more array of parameters during growth.

        If not `grows`, there is room for all splats from the start. Sorting may use the memory of scratch buffers.
        """
        rows = num_rows(sh_degree, num_features)
        params = (on_device.params if on_device else rows) + rows * grows + smooth_3d
        return MemoryCost(per_splat=4 * params + Model.bytes_of_moments(on_device, num_features))

    @staticmethod
    def bytes_of_moments(on_device: RowsOnDevice | None, num_features: int) -> int:
        """Device memory of the moments and statistics of a splat, which frozen splats lack."""
        return 4 * ((on_device.moments if on_device else num_moments(num_features)) + 2)

    @property
    def num(self) -> int:
        """Number of splats, frozen ones included."""
        return self.splats.num

    @property
    def num_without_moments(self) -> int:
        """Number of splats at the beginning without moments and statistics (see cuda_src/raster/update.cuh)."""
        return num_without_moments(self.num_frozen)

    def missing(self, name: str) -> int:
        """Number of splats at the beginning without a column in the plane `name`."""
        return 0 if name in ("params", "filters") else self.num_without_moments

    @property
    def num_trained(self) -> int:
        """Number of splats that are not frozen, which max_splats limits."""
        return self.num - self.num_frozen

    def planes(self) -> dict[str, DeviceArray]:
        """All arrays by their names in checkpoints, float32 [.., capacity - missing]; the first columns are in use."""
        sigmas = self.splats.smooth_3d_sigmas
        planes = {"params": self.splats.params, "moments": self.moments, "stats": self.stats}
        return planes if sigmas is None else planes | {"filters": sigmas}

    def set_planes(self, planes: dict[str, DeviceArray]) -> None:
        """Replace the arrays that `planes` returns."""
        self.splats.params, self.moments = planes["params"], planes["moments"]
        self._set_stats(planes["stats"])
        self.splats.smooth_3d_sigmas = planes.get("filters")

    def _set_stats(self, stats: DeviceArray) -> None:
        self.stats, self.last_seen = stats, stats[1:].reshape(-1)  # a view; empty if `rebuild` has freed the planes

    def load_planes(self, planes: dict[str, np.ndarray], capacity: int) -> None:
        """Restore host arrays of the planes, [.., num - missing], of the same rows. ShapeError if shapes differ."""
        num = planes["params"].shape[1]
        for name, array in self.planes().items():
            expected = len(array), num - self.missing(name)
            if planes[name].shape != expected:
                raise ShapeError(f"{name} is {list(planes[name].shape)}, expected {list(expected)}")
        loaded = {name: planes[name] for name in self.planes()}
        self._free()
        self._place(loaded, capacity)

    def _free(self) -> None:
        """Free all planes."""
        self.set_planes(dict.fromkeys(self.planes(), self.backend.xp.zeros((2, 0), "float32")))
        self.backend.release_cached()

    def _zeros(self, name: str, rows: int, capacity: int) -> DeviceArray:
        on_device = self.on_device.of(name, rows) if self.on_device else rows
        return self.backend.planes(rows, capacity - self.missing(name), on_device)

    def _place(self, planes: dict[str, np.ndarray], capacity: int) -> None:
        num, wider = planes["params"].shape[1], {}
        for name, array in planes.items():
            wider[name] = self._zeros(name, len(array), capacity)
            for target, row in zip(wider[name], array, strict=True):
                target[: len(row)] = self.backend.upload(row)
        self.set_planes(wider)
        self.splats.num = num

    def reserve(self, num: int, limit: int) -> None:
        """Grow the capacity to at least `num` splats, with headroom up to `limit` trained ones."""
        if num <= self.splats.capacity:
            return
        before, limit = self.splats.capacity, limit + self.num_frozen
        capacity = rounded_capacity(max(num, min(int(before * GROWTH), limit)))
        check_capacity(self.backend, capacity)
        try:
            self._reallocate(capacity)
            return
        except MemoryError:
            pass  # the exception keeps the arrays of `_reallocate` alive until this block ends
        self.rebuild(before)
        raise MemoryError(f"no room for {capacity:,} splats")

    def rebuild(self, num: int) -> None:
        """Reallocate for `num` splats through host memory: device memory never holds old and new arrays at once."""
        planes = self.planes()
        saved = {name: download_columns(self.backend, planes[name], self.num - self.missing(name)) for name in planes}
        del planes
        self._free()
        self._place(saved, rounded_capacity(num))

    def _reallocate(self, capacity: int) -> None:
        for name in list(self.planes()):  # each old array is freed before the next one is reallocated
            self.set_planes(self.planes() | {name: self._enlarged(name, capacity)})

    def extend(self, count: int) -> None:
        """Append `count` splats of zeros, with zero moments; the capacity must suffice."""
        for name, array in self.planes().items():
            clear_columns(self.backend, array, count, first=self.num, missing=self.missing(name))
        self.splats.num += count

    def add(self, count: int, limit: int, holes: DeviceArray | None = None) -> DeviceArray:
        """Slots for `count` splats, int64 [count]: first `holes`, if any, then new columns of zeros.

        Grows the capacity if necessary, see `reserve`.
        """
        first, num_new = self.num, count - (0 if holes is None else len(holes))
        self.reserve(first + num_new, limit)  # first, as it may raise MemoryError
        self.extend(num_new)
        return list_slots(self.backend, holes, first, count)

    def copy(self, source: DeviceArray, target: DeviceArray) -> None:
        """Copy the parameters of splats `source` int64 [K] to splats `target`, with zero moments."""
        copy_columns(self.backend, self.splats.params, len(source), source, target=target)
        self.clear_moments(target)

    def clear_moments(self, index: DeviceArray) -> None:
        """Set the moments of the splats `index` int64 [K] to zero."""
        clear_columns(self.backend, self.moments, len(index), index, missing=self.num_without_moments)

    def clear_moments_of(self, row: int) -> None:
        """Set the moments of a parameter of all trained splats to zero."""
        trained = slice(self.num_frozen - self.num_without_moments, self.num - self.num_without_moments)
        self.moments[row, trained] = 0

    def remove(self, mask: DeviceArray) -> None:
        """Remove the splats where `mask` bool [num] is set; the last ones fill the gaps. Waits for the device.

        The mask must not include frozen splats.
        """
        self.splats.num = remove_columns(self.backend, list(self.planes().values()), mask)

    def remove_nonfinite(self) -> int:
        """Remove splats with a non-finite parameter; returns their number."""
        before = self.num
        self.remove(mark_nonfinite(self.backend, self.splats.params, before))
        return before - self.num

    def expose_nonfinite(self) -> int:
        """Make a coordinate of all splats with a non-finite parameter non-finite, too; returns their number."""
        mask = mark_nonfinite(self.backend, self.splats.params, self.num)
        count = len(partition(self.backend, mask)[0])
        if count:
            self.splats.params[0, : self.num][mask] = np.nan
        return count

    def sort_spatially(self) -> None:
        """Sort the trained splats along a Morton curve, so that the threads of a warp own neighbouring splats."""
        if self.num == 0:
            return
        backend, means = self.backend, self.splats.params[MEANS]
        sample = np.linspace(0, self.num - 1, min(self.num, BOUNDS_SAMPLE)).astype(np.int64)
        some = backend.xp.empty((3, len(sample)), "float32")
        copy_columns(backend, means, len(sample), backend.upload(sample), out=some)
        bounds = curve_bounds(backend.download(some).T)
        order = backend.xp.argsort(device_curve_positions(backend, means, self.num, bounds, self.num_frozen))
        for name, array in self.planes().items():
            reorder_columns(backend, array, order, self.num_without_moments, self.missing(name))

    def clear_stats(self) -> None:
        """Set the statistics of all splats to zero."""
        self.stats[:, : self.num - self.num_without_moments] = 0

    def _enlarged(self, name: str, capacity: int) -> DeviceArray:
        array = self.planes()[name]
        wider = self._zeros(name, len(array), capacity)
        copy_columns(self.backend, array, self.num - self.missing(name), out=wider)
        return wider


def num_without_moments(num_frozen: int) -> int:
    """Number of splats at the beginning without moments and statistics: the frozen ones, in whole warps."""
    return num_frozen // WARP * WARP


def rounded_capacity(capacity: int) -> int:
    """A multiple of GRAIN, at least `capacity`."""
    return ceil_div(capacity, GRAIN) * GRAIN
