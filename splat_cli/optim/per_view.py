"""Partial sums of per-photograph gradients: host side of cuda_src/optim/per_view.cuh."""

from __future__ import annotations

from dataclasses import dataclass

# Blocks and threads of a sum over all splats. On the CPU a barrier costs more than many additions: one thread a block.
SUM_BLOCKS = {"cuda": 264, "cpu": 32}
SUM_THREADS = {"cuda": 128, "cpu": 1}
# Blocks and warps of a pass over all pixels: on both devices a lane owns pixels, and a warp leaves a row of sums.
PIXEL_BLOCKS, PIXEL_WARPS = 132, 8


@dataclass(frozen=True)
class Decay:
    """A learning rate that goes from `first` to `last` over `steps` steps, its logarithm evenly."""

    first: float
    last: float
    steps: int
