"""Morton codes of positions, for spatial sorting; on host and device.

The curve spans three times the extent of the central 98 % of the points; positions are clamped to it, so that outliers
do not reduce the resolution.
"""

from __future__ import annotations

import numpy as np

from splat_cli.device import Backend, DeviceArray, launch

CELL_BITS = 21


def curve_positions(points: np.ndarray) -> np.ndarray:
    """Morton code of each point [P, 3], uint64 [P]."""
    low, extent = curve_bounds(points)
    cells = np.clip((points - low) / extent, 0, 1) * (2**CELL_BITS - 1)
    x, y, z = (_spread(column) for column in cells.astype(np.uint64).T)
    return x | y << np.uint64(1) | z << np.uint64(2)


def device_curve_positions(
    backend: Backend, means: DeviceArray, num: int, bounds: np.ndarray, num_held: int = 0
) -> DeviceArray:
    """Like `curve_positions`, for the first `num` points in planes float32 [3, capacity]; bounds: from `curve_bounds`.

    num_held: the first `num_held` points get their indices as codes, which are lower than all other codes.
    """
    codes = backend.xp.empty(num, "uint64")
    launch(backend, "morton", "morton_codes", num, means, means.shape[1], num_held, num, backend.upload(bounds), codes)
    return codes


def curve_bounds(points: np.ndarray) -> np.ndarray:
    """Lower corner and extent of the curve for points [P, 3], float64 [2, 3]."""
    low, high = np.percentile(points.astype(np.float64), (1, 99), axis=0)
    span = np.maximum(high - low, 1e-30)
    return np.stack([low - span, 3 * span])


def _spread(bits: np.ndarray) -> np.ndarray:
    """The low 21 bits of uint64 values with two zero bits after each."""
    for shift, mask in (
        (32, 0x001F00000000FFFF),
        (16, 0x001F0000FF0000FF),
        (8, 0x100F00F00F00F00F),
        (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    ):
        bits = (bits | bits << np.uint64(shift)) & np.uint64(mask)
    return bits
