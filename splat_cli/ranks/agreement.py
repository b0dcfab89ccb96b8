"""If one of several ranks runs out of memory, all of them get an error at the same point, or the run ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from splat_cli.device import Backend
from splat_cli.errors import OutOfMemory
from splat_cli.ranks.protocol import Ranks

OUT_OF_MEMORY_ADVICE = "use --max-splats or a larger --downscale"


class SharedMemoryError(MemoryError):
    """Memory has run out on at least one rank; raised on all of them, at the same point."""


def numbers_of_all(ranks: Ranks, backend: Backend, number: int) -> np.ndarray:
    """The numbers of all ranks, int64 [ranks]; all of them call this at the same point."""
    sent, received = (backend.upload(np.full((ranks.size, 1), number, np.int64)) for _ in range(2))
    ranks.exchange([(sent, received)])
    return backend.download(received)[:, 0]


@contextmanager
def all_or_none(ranks: Ranks, backend: Backend) -> Iterator[None]:
    """A block that all ranks run. If memory runs out on one of them, all raise SharedMemoryError after the block.

    Transfers within the block must not raise a MemoryError on only one rank (see fatal_out_of_memory).
    """
    fits = True
    try:
        yield
    except SharedMemoryError:
        raise
    except MemoryError:
        fits = False  # the memory of the block is freed with the exception
    without = np.flatnonzero(numbers_of_all(ranks, backend, fits) == 0)
    if len(without):
        raise SharedMemoryError(f"GPU {without[0]} of {ranks.size} is out of memory")


@contextmanager
def fatal_out_of_memory(ranks: Ranks) -> Iterator[None]:
    """Turn a MemoryError on only this rank into OutOfMemory, which ends the run, because the others wait for it."""
    try:
        yield
    except SharedMemoryError:
        raise
    except MemoryError:
        raise OutOfMemory(f"GPU {ranks.rank} of {ranks.size} is out of memory: {OUT_OF_MEMORY_ADVICE}") from None
