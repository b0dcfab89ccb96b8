"""Depth maps in memory: inverse depths as half floats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_MOST = 1e30  # inverse depth; kernels compute with 32-bit floats


@dataclass(frozen=True, eq=False)
class DepthMap:
    """Inverse depth of a view: 1/z = scale * values, or if `relative`, up to another scale and a shift.

    values: float16 [h, w], mean 1, 0 where there is no depth; the pinhole view at the map's own resolution. weights:
    uint8 [h, w], 255 for a weight of 1, or None: all are 1.
    """

    values: np.ndarray
    weights: np.ndarray | None
    scale: float
    relative: bool = False

    @classmethod
    def of(
        cls, inverse_depths: np.ndarray, confidence: np.ndarray | None = None, relative: bool = False
    ) -> DepthMap | None:
        """From inverse depths float [h, w], invalid where not positive and finite; None if no pixel is valid.

        confidence: float [h, w], 0 to 1, or None.
        """
        valid = (inverse_depths > 0) & (inverse_depths < _MOST)
        if confidence is not None:
            valid &= confidence > 0
        if not valid.any():
            return None
        mean = float(inverse_depths[valid].mean(dtype=np.float64))
        values = np.minimum(np.where(valid, inverse_depths, 0) / mean, 60_000).astype(np.float16)
        weights = None
        if confidence is not None and (confidence[valid] < 1).any():
            weights = np.rint(255 * confidence).astype(np.uint8)
        return cls(values, weights, mean, relative)

    @property
    def num_bytes(self) -> int:
        """Memory of the map, in bytes."""
        return self.values.nbytes + (0 if self.weights is None else self.weights.nbytes)


@dataclass(frozen=True, eq=False)
class DepthMaps:
    """Depth maps of views, None where a view has none."""

    maps: Sequence[DepthMap | None]

    @property
    def num_bytes(self) -> int:
        """Memory on the device, in bytes."""
        return sum(depth_map.num_bytes for depth_map in self.maps if depth_map is not None)
