"""Unpacking of splats in blocks: intermediate arrays, often of float64, stay small compared to the result."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays

_BLOCK = 1 << 14


def unpack_in_blocks(
    num: int, num_rest: int, unpack: Callable[[slice], SplatArrays], antialiased: bool = False
) -> SplatArrays:
    """`num` splats with `num_rest` higher coefficients each; `unpack` returns those of a range of indices."""
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
