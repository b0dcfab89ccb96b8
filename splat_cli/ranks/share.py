"""The splats of a rank: blocks of RANK_BLOCK, assigned round robin."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from splat_cli.device import ceil_div

RANK_BLOCK = 4096  # splats, as in cuda_src/common.cuh

# Mirrors `struct Share` in cuda_src/common.cuh.
SHARE_DTYPE = np.dtype([("rank", np.int32), ("num_ranks", np.int32)])


@dataclass(frozen=True)
class Share:
    """The splats of rank `rank` of `num_ranks`, the only ones in its planes.

    struct: the argument of a kernel.
    """

    rank: int = 0
    num_ranks: int = 1
    struct: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        struct = np.array((self.rank, self.num_ranks), SHARE_DTYPE)
        object.__setattr__(self, "struct", struct)  # the dataclass is frozen

    def columns(self, capacity: int) -> int:
        """Columns of each share of `capacity` splats; the same for all ranks."""
        return capacity if self.num_ranks == 1 else ceil_div(capacity, RANK_BLOCK * self.num_ranks) * RANK_BLOCK

    def count(self, num: int) -> int:
        """Number of splats in this share, of `num` in total."""
        if self.num_ranks == 1:
            return num
        rounds, rest = divmod(num, RANK_BLOCK * self.num_ranks)
        return rounds * RANK_BLOCK + min(max(rest - self.rank * RANK_BLOCK, 0), RANK_BLOCK)


WHOLE = Share()
"""The share of a single process."""
