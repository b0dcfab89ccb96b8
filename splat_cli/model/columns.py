"""Copying, clearing and partitioning of splats in parameter planes: host side of cuda_src/density/columns.cu.

Planes are float32 [rows, columns]; each column is a splat. Indices are int64, masks bool. missing: number of splats at
the beginning that have no column in a plane; they do not change.
"""

from __future__ import annotations

import numpy as np

from splat_cli.device import Backend, DeviceArray, check_arrays, launch

FILE = "density/columns"
ROWS_AT_ONCE = 6  # rows that are reordered at a time, to limit temporary memory


def copy_columns(
    backend: Backend,
    planes: DeviceArray,
    num: int,
    source: DeviceArray | None = None,
    out: DeviceArray | None = None,
    target: DeviceArray | None = None,
    limit: DeviceArray | None = None,
    missing: tuple[int, int] = (0, 0),
) -> None:
    """Copy splats source [num] of `planes` to splats target [num] of `out` (default: the same planes).

    source or target None: the first `num` splats. limit: int64 [1] on the device, upper bound of the number of
    splats. missing: in `planes` and in `out`.
    """
    out = planes if out is None else out
    check_arrays("copy_columns", planes=(planes, "float32", "R C"), out=(out, "float32", "R D"))
    arrays = planes, planes.shape[1], source, out, out.shape[1], target, num, limit, *missing
    launch(backend, FILE, "copy_columns", num, *arrays, rows=len(planes))


def clear_columns(
    backend: Backend, planes: DeviceArray, num: int, index: DeviceArray | None = None, first: int = 0, missing: int = 0
) -> None:
    """Set `num` splats to zero: splats index [num], or those from `first` on."""
    launch(backend, FILE, "clear_columns", num, planes, planes.shape[1], index, first, num, missing, rows=len(planes))


def mask_sums(backend: Backend, mask: DeviceArray) -> DeviceArray:
    """Inclusive prefix sums of a mask [num], int64 [num]."""
    ones = backend.xp.empty(len(mask), "int64")
    launch(backend, FILE, "mask_to_integers", len(mask), mask, len(mask), ones)
    return backend.xp.cumsum(ones)


def last_sum(backend: Backend, sums: DeviceArray) -> int:
    """The last element of `mask_sums`; waits for the device."""
    return int(backend.download(sums[-1:])[0])


def partition(
    backend: Backend, mask: DeviceArray, values: DeviceArray | None = None, count: int | None = None
) -> tuple[DeviceArray, DeviceArray]:
    """Indices where the mask [num] is set and where it is not, in ascending order; or `values` [num] at these.

    count: number of set elements; if not given, this waits for the device.
    """
    num, empty = len(mask), backend.xp.empty
    if num == 0:
        return empty(0, "int64"), empty(0, "int64")
    sums = mask_sums(backend, mask)
    count = last_sum(backend, sums) if count is None else count
    chosen, others = empty(count, "int64"), empty(num - count, "int64")
    launch(backend, FILE, "partition", num, mask, sums, values, num, chosen, others)
    return chosen, others


def remove_columns(backend: Backend, planes: list[DeviceArray], mask: DeviceArray) -> int:
    """Remove the splats where the mask [num] is set; the last ones fill the gaps. Returns the number that is left.

    Planes with fewer columns than the first lack those of the first splats. Waits for the device.
    """
    num = len(mask)
    if num == 0:
        return 0
    sums = mask_sums(backend, mask)
    removed = last_sum(backend, sums)
    kept = num - removed
    if removed == 0 or kept == 0:
        return kept
    holes, movers = backend.xp.empty(removed, "int64"), backend.xp.empty(removed, "int64")
    launch(backend, FILE, "find_moves", num, mask, sums, num, kept, holes, movers)
    for array in planes:
        missing = planes[0].shape[1] - array.shape[1]
        limit = sums[kept - 1 : kept]
        copy_columns(backend, array, min(removed, kept), movers, None, holes, limit, missing=(missing, missing))
    return kept


def mark_nonfinite(backend: Backend, params: DeviceArray, num: int) -> DeviceArray:
    """Mask [num] of columns with a non-finite number."""
    mask = backend.xp.empty(num, "bool")
    launch(backend, FILE, "mark_nonfinite", num, params, *params.shape, num, mask)
    return mask


def reorder_columns(
    backend: Backend, planes: DeviceArray, order: DeviceArray, first: int = 0, missing: int = 0
) -> None:
    """Reorder the splats of `planes`: splat k becomes splat order[k]; `order` is a permutation.

    The splats before `first` stay where they are.
    """
    num = len(order)
    ordered = backend.xp.empty((min(ROWS_AT_ONCE, len(planes)), num - first), np.float32)
    for row in range(0, len(planes), ROWS_AT_ONCE):
        rows = planes[row : row + ROWS_AT_ONCE]
        copy_columns(backend, rows, num, order, out=ordered[: len(rows)], missing=(missing, first))
        copy_columns(backend, ordered[: len(rows)], num, out=rows, missing=(first, missing))


def download_columns(backend: Backend, planes: DeviceArray, num: int) -> np.ndarray:
    """The first `num` columns of `planes` on the host; waits for the device."""
    columns = np.empty((len(planes), num), np.float32)
    for row, values in zip(columns, planes, strict=True):
        row[...] = backend.download(values[:num])
    return columns


def list_slots(backend: Backend, holes: DeviceArray | None, first: int, count: int) -> DeviceArray:
    """`count` slots for splats, int64 [count]: the first of `holes`, if any, then columns from `first` on."""
    slots, num_holes = backend.xp.empty(count, "int64"), 0 if holes is None else len(holes)
    launch(backend, FILE, "list_slots", count, holes, num_holes, first, count, slots)
    return slots
