"""Parameter arrays with gradients and Adam moments: host side of cuda_src/field/adam_flat.cu."""

from __future__ import annotations

import numpy as np

from splat_cli.device import Backend, DeviceArray, ceil_div
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import batch_defines

THREADS = 256
GRAIN = 4  # values per thread


class Parameters:
    """Flat float32 arrays of equal length, a multiple of 4: values, gradients, moments1 and moments2.

    halves: float16 copy of the values, or None. Gradients accumulate until `adam_flat`, which resets them.
    """

    def __init__(self, backend: Backend, values: np.ndarray, half: bool = False) -> None:
        self.backend = backend
        padded = np.zeros(ceil_div(values.size, GRAIN) * GRAIN, np.float32)
        padded[: values.size] = values.ravel()
        self.values = backend.upload(padded)
        self.gradients, self.moments1, self.moments2 = (backend.xp.zeros_like(self.values) for _ in range(3))
        self.halves = self.values.astype("float16") if half else None

    def __len__(self) -> int:
        return len(self.values)

    def arrays(self) -> dict[str, DeviceArray]:
        """State arrays by name."""
        return {"values": self.values, "moments1": self.moments1, "moments2": self.moments2}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Copy arrays that `arrays` returned."""
        for name, array in self.arrays().items():
            array[...] = self.backend.upload(arrays[name])
        self.refresh()

    def refresh(self) -> None:
        """Update the halves from the values."""
        if self.halves is not None:
            self.halves[...] = self.values.astype("float16")

    def adam_flat(
        self,
        state: IterState,
        rate: int,
        sparse: bool = False,
        adam: bool = True,
        factor: float = 1.0,
        views: DeviceArray | None = None,
    ) -> None:
        """One step of Adam, or of gradient descent, with `factor` times learning rate number `rate` of the state.

        sparse: skip values with a zero gradient. views: `struct BatchView` of the batch whose gradients were summed;
        None: one view. Non-finite gradients are skipped and counted in the state. Resets the gradients.
        """
        halves = None if self.halves is None else self.halves.view("uint16")
        moments = (self.moments1, self.moments2) if adam else (None, None)
        options = rate, float(factor), len(self), int(sparse)
        arrays = self.values, self.gradients, *moments, halves
        kernel = self.backend.kernel("field/adam_flat", "adam_flat", **batch_defines(views))
        kernel((ceil_div(len(self), GRAIN * THREADS),), (THREADS,), state.array, views, *options, *arrays)


def adam_bias(step: int) -> dict[str, float]:
    """Bias corrections of Adam at step `step`, counted from 1 (Kingma and Ba 2015, algorithm 1)."""
    return {"inv_bias1": 1 / (1 - 0.9**step), "inv_root_bias2": (1 - 0.999**step) ** -0.5}
