"""Packing shared by several formats: quantised numbers, and splats that are unpacked in blocks."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays, opacities

_SQRT_HALF = np.sqrt(0.5)
"""Maximum of all components but the largest of a unit quaternion."""
_BLOCK = 1 << 14


def to_bytes(values: np.ndarray) -> np.ndarray:
    """Rounded to integers from 0 to 255, uint8."""
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def opacity_bytes(splats: SplatArrays) -> np.ndarray:
    """Opacities times 255, uint8 [N]."""
    return to_bytes(255 * opacities(splats))


def logits_from_bytes(opacity: np.ndarray) -> np.ndarray:
    """Logits float32 of opacities uint8; 0 and 255 become the centre of their rounding interval, which is finite."""
    fraction = np.clip(opacity.astype(np.float64), 0.25, 254.75) / 255
    return np.log(fraction / (1 - fraction)).astype(np.float32)


def unit_quats(quats: np.ndarray) -> np.ndarray:
    """Normalised quaternions [N, 4], float64; zero quaternions become the identity."""
    quats = quats.astype(np.float64)
    length = np.linalg.norm(quats, axis=1, keepdims=True)
    return np.where(length > 0, quats / np.maximum(length, np.finfo(np.float64).tiny), [1.0, 0.0, 0.0, 0.0])


def smallest_three(quats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(index [N] of the largest component, the other three [N, 3] as fractions -1 to 1 of their maximum).

    quats: [N, 4], unit length. The sign is chosen so that the omitted component is positive.
    """
    largest = np.argmax(np.abs(quats), axis=1)
    sign = np.where(np.take_along_axis(quats, largest[:, None], 1) < 0, -1.0, 1.0)
    others = np.arange(4) != largest[:, None]
    return largest.astype(np.uint32), ((quats * sign)[others].reshape(-1, 3) / _SQRT_HALF)


def from_smallest_three(largest: np.ndarray, three: np.ndarray) -> np.ndarray:
    """Quaternions float32 [N, 4]: inverse of `smallest_three`."""
    three = three * _SQRT_HALF
    quats = np.empty((len(three), 4))
    quats[np.arange(4) != largest[:, None]] = three.ravel()
    quats[np.arange(len(three)), largest] = np.sqrt(np.maximum(0, 1 - (three**2).sum(axis=1)))
    return quats.astype(np.float32)


def unpack_in_blocks(num: int, num_rest: int, unpack: Callable[[slice], SplatArrays], antialiased: bool) -> SplatArrays:
    """`num` splats with `num_rest` higher coefficients each; `unpack` returns a range of them."""
    widths = {
        "means": (3,),
        "log_scales": (3,),
        "quats": (4,),
        "logit_opacities": (),
        "sh0": (3,),
        "shN": (num_rest, 3),
    }
    arrays: dict[str, Any] = {name: np.empty((num, *width), np.float32) for name, width in widths.items()}
    for rows in _blocks(num):
        for name, values in unpack(rows).arrays().items():
            arrays[name][rows] = values
    return SplatArrays(**arrays, antialiased=antialiased)


def _blocks(num: int) -> Iterator[slice]:
    return (slice(begin, min(begin + _BLOCK, num)) for begin in range(0, num, _BLOCK))
