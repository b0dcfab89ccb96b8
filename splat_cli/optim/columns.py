"""Copying and clearing of splats in parameter planes: host side of cuda_src/density/columns.cu.

A plane is an array float32 [rows, capacity], a column a splat. Indices are int64, masks bool.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from splat_cli.device import Backend, check_arrays

FILE = "density/columns"
THREADS = 256


def launch(backend: Backend, file: str, name: str, num: int, *args: Any, rows: int = 1, **defines: int) -> None:
    """Launch a kernel with a thread for each of `num` columns of each row; none where there are no columns."""
    if num:
        backend.kernel(file, name, **defines)((-(-num // THREADS), rows), (THREADS,), *args)


def copy_columns(
    backend: Backend, planes: Any, num: int, source: Any = None, out: Any = None, target: Any = None, limit: Any = None
) -> None:
    """Copy `num` columns source [num] of `planes` to the columns target [num] of `out` (by default the same planes).

    Where source or target is None, it is the first `num`. limit: int64 [1] on the device; no more than that many.
    """
    out = planes if out is None else out
    check_arrays("copy_columns", planes=(planes, "float32", "R C"), out=(out, "float32", "R D"))
    launch(
        backend, FILE, "copy_columns", num, planes, planes.shape[1], source, out, out.shape[1], target, num, limit,
        rows=len(planes),
    )  # fmt: skip


def clear_columns(backend: Backend, planes: Any, num: int, index: Any = None, first: int = 0) -> None:
    """Set `num` columns index [num] of planes to zero, or those from `first` on."""
    launch(backend, FILE, "clear_columns", num, planes, planes.shape[1], index, first, num, rows=len(planes))


def mask_sums(backend: Backend, mask: Any) -> Any:
    """Inclusive sums of a mask [num], int64 [num]."""
    ones = backend.xp.empty(len(mask), "int64")
    launch(backend, FILE, "mask_to_integers", len(mask), mask, len(mask), ones)
    return backend.xp.cumsum(ones)


def last_sum(backend: Backend, sums: Any) -> int:
    """The last of `mask_sums`; waits for the device."""
    return int(backend.download(sums[-1:])[0])


def partition(backend: Backend, mask: Any, values: Any = None, count: int | None = None) -> tuple[Any, Any]:
    """Indices where the mask [num] is set, and where it is not, in order; or `values` [num] at these.

    count: how often the mask is set; without it, this waits for the device.
    """
    num, empty = len(mask), backend.xp.empty
    if num == 0:
        return empty(0, "int64"), empty(0, "int64")
    sums = mask_sums(backend, mask)
    count = last_sum(backend, sums) if count is None else count
    chosen, others = empty(count, "int64"), empty(num - count, "int64")
    launch(backend, FILE, "partition", num, mask, sums, values, num, chosen, others)
    return chosen, others


def remove_columns(backend: Backend, planes: list[Any], mask: Any) -> int:
    """Remove the columns where the mask [num] is set: the last ones move into the holes. Returns how many remain.

    Waits for the device.
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
        copy_columns(backend, array, min(removed, kept), movers, target=holes, limit=sums[kept - 1 : kept])
    return kept


def mark_nonfinite(backend: Backend, params: Any, num: int) -> Any:
    """Which of the first `num` columns hold a number that is not finite, bool [num]."""
    mask = backend.xp.empty(num, "bool")
    launch(backend, FILE, "mark_nonfinite", num, params, *params.shape, num, mask)
    return mask


def reorder_columns(backend: Backend, planes: Any, order: Any) -> None:
    """Put the columns order [num] of `planes` first, in this order; it names each of the first `num` once."""
    num = len(order)
    ordered = backend.xp.empty((len(planes), num), np.float32)
    copy_columns(backend, planes, num, order, out=ordered)
    copy_columns(backend, ordered, num, out=planes)


def list_slots(backend: Backend, holes: Any | None, first: int, count: int) -> Any:
    """`count` places for splats, int64: the first of `holes`, if there are any, then the columns from `first` on."""
    slots, num_holes = backend.xp.empty(count, "int64"), 0 if holes is None else len(holes)
    launch(backend, FILE, "list_slots", count, holes, num_holes, first, count, slots)
    return slots
