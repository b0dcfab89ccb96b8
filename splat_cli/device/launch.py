"""Launches of kernels with one thread per element, and division that rounds up, for other grids."""

from __future__ import annotations

from typing import Any

from splat_cli.device.backend import Backend

THREADS = 256


def ceil_div(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def launch(backend: Backend, file: str, name: str, num: int, *args: Any, rows: int = 1, **defines: int) -> None:
    """Launch a kernel with one thread per element of `rows` rows of `num` elements; does nothing if `num` is 0."""
    if num:
        backend.kernel(file, name, **defines)((ceil_div(num, THREADS), rows), (THREADS,), *args)
