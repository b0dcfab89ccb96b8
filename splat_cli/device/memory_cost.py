"""Device memory of buffers, as stated by their owners."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryCost:
    """Bytes: fixed, per pixel and tile of the largest view, per (splat, tile) pair, per splat. Costs can be added."""

    fixed: float = 0
    per_pixel: float = 0
    per_tile: float = 0
    per_pair: float = 0
    per_splat: float = 0

    def __add__(self, other: MemoryCost) -> MemoryCost:
        mine, theirs = dataclasses.astuple(self), dataclasses.astuple(other)
        return MemoryCost(*(a + b for a, b in zip(mine, theirs, strict=True)))
