"""If one of several ranks runs out of memory, all of them get an error at the same point, or the run ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import numpy as np

from splat_cli.device import Backend
from splat_cli.errors import OutOfMemory
from splat_cli.ranks.protocol import Ranks

T = TypeVar("T")
OUT_OF_MEMORY_ADVICE = "use --max-splats or a larger --downscale"


class SharedMemoryError(MemoryError):
    """Memory has run out on at least one rank; raised on all of them, at the same point."""


def all_or_none(ranks: Ranks, backend: Backend, work: Callable[[], T]) -> T:
    """The result of `work`, called by all ranks at the same point. SharedMemoryError if any rank runs out of memory."""
    results = list[T]()
    with suppress(MemoryError):
        results.append(work())
    sent, received = (backend.upload(np.full((ranks.size, 1), len(results), np.int32)) for _ in range(2))
    ranks.exchange([(sent, received)])
    without = np.flatnonzero(backend.download(received)[:, 0] == 0)
    if len(without):
        raise SharedMemoryError(f"GPU {without[0]} of {ranks.size} is out of memory")
    return results[0]


@contextmanager
def fatal_out_of_memory(ranks: Ranks) -> Iterator[None]:
    """Turn a MemoryError on only this rank into OutOfMemory, which ends the run, because the others wait for it."""
    try:
        yield
    except SharedMemoryError:
        raise
    except MemoryError:
        raise OutOfMemory(f"GPU {ranks.rank} of {ranks.size} is out of memory: {OUT_OF_MEMORY_ADVICE}") from None
