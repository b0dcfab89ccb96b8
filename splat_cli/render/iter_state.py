"""The state of a training iteration in device memory; the host can read and write it."""

from __future__ import annotations

from typing import Any

import numpy as np

from splat_cli.device import Backend, DeviceArray

LEARNING_RATES = ("means", "log_scales", "quats", "opacities", "sh0", "shN", "field", "field_features")  # in `lr`

SEGMENT_BINS = 4  # as in cuda_src/common.cuh

# Mirrors `struct IterState` in cuda_src/common.cuh.
ITER_STATE_DTYPE = np.dtype([
    ("step", np.int32), ("view", np.int32), ("sh_degree", np.int32), ("overflowed", np.int32),
    ("num_splats", np.uint32), ("num_large", np.uint32),
    ("num_pairs", np.uint32), ("needed_pairs", np.uint32), ("segments_in_bins", np.uint32, SEGMENT_BINS),
    ("background", np.float32, 3), ("loss_l1", np.float32), ("loss_l2", np.float32), ("loss_ssim", np.float32),
    ("loss", np.float32), ("psnr", np.float32),
    ("inv_bias1", np.float32), ("inv_root_bias2", np.float32), ("lr", np.float32, len(LEARNING_RATES)),
    ("reference_size", np.float32),
    ("skipped_updates", np.uint32), ("skipped_steps", np.uint32), ("num_frozen", np.uint32),
])  # fmt: skip


class IterState:
    """One `struct IterState` on the device. `read` waits for the device; `write` takes effect in stream order."""

    def __init__(self, backend: Backend, **fields: Any) -> None:
        self.backend = backend
        self.array = backend.upload(np.zeros(ITER_STATE_DTYPE.itemsize // 4, np.uint32))
        self.write(**fields)

    @classmethod
    def of_views(cls, backend: Backend, count: int) -> tuple[DeviceArray, list[IterState]]:
        """States of views that are rendered at the same time: one array of all, and each of them."""
        states = [cls(backend) for _ in range(count)]
        together = backend.xp.concatenate([state.array for state in states]).reshape(count, -1)
        for state, row in zip(states, together, strict=True):
            state.array = row
        return together, states

    def read(self) -> np.ndarray:
        """The state as a 0-d structured array of ITER_STATE_DTYPE."""
        return self.backend.download(self.array).view(ITER_STATE_DTYPE)[0]

    def clear_counts(self) -> None:
        """Reset the counters: required before a forward pass without `begin_step` or `next_view`."""
        self.write(num_large=0, segments_in_bins=np.zeros(SEGMENT_BINS))

    def write(self, **fields: Any) -> None:
        """Write the named fields; others are unchanged on the device."""
        layout = ITER_STATE_DTYPE.fields
        assert layout is not None
        for name, value in fields.items():
            dtype, offset = layout[name][:2]
            words = np.ascontiguousarray(np.asarray(value, dtype.base).reshape(-1)).view(np.uint32)
            self.array[offset // 4 : offset // 4 + len(words)] = self.backend.upload(words)


def copy_view_state(source: IterState, target: IterState) -> None:
    """Queue a copy of the view of a state, see cuda_src/optim/begin_step.cu."""
    source.backend.kernel("optim/begin_step", "copy_view_state")((1,), (1,), source.array, target.array)
