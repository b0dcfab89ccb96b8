"""Launch sizes and learning rates of models with parameters per photograph or camera (cuda_src/optim/per_view.cuh)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from splat_cli.device import Backend, DeviceArray
from splat_cli.scene.view import View

# Blocks and threads of a sum over all splats. On the CPU, one thread per block, because barriers are slow.
SUM_BLOCKS = {"cuda": 264, "cpu": 32}
SUM_THREADS = {"cuda": 128, "cpu": 1}
# Blocks and warps of a pass over all pixels: each warp writes one row of sums.
PIXEL_BLOCKS, PIXEL_WARPS = 132, 8


class Decay(NamedTuple):
    """Exponential decay of a learning rate from `first` to `last` over `steps` steps."""

    first: float
    last: float
    steps: int


def camera_rows(backend: Backend, views: Sequence[View]) -> tuple[np.ndarray, DeviceArray]:
    """Camera ids, one per row of camera parameters, and the row of each view, int32 [num_views] on the device."""
    ids, rows = np.unique([view.camera_id for view in views], return_inverse=True)
    return ids, backend.upload(rows.astype(np.int32))
