"""Adam: its moments, and the host side of cuda_src/adam.cu."""

from __future__ import annotations

from typing import Any

from splat_cli.device import check_arrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.step import StepState

THREADS = 256


class Moments:
    """First and second moments of all parameters, float32 [rows, capacity] as the splats' planes."""

    def __init__(self, splats: Splats) -> None:
        self.first = splats.backend.xp.zeros_like(splats.params)
        self.second = splats.backend.xp.zeros_like(splats.params)


def adam(splats: Splats, moments: Moments, state: StepState, d_params: Any) -> None:
    """One dense step from stored gradients d_params [rows, capacity] (Kingma and Ba 2015)."""
    check_arrays(
        "adam",
        params=(splats.params, "float32", "R C"),
        moments1=(moments.first, "float32", "R C"),
        moments2=(moments.second, "float32", "R C"),
        d_params=(d_params, "float32", "R C"),
    )
    rows, capacity = splats.params.shape
    splats.backend.kernel("adam", "adam")(
        (-(-capacity // THREADS), rows), (THREADS,),
        state.array, capacity, splats.params, moments.first, moments.second, d_params,
    )  # fmt: skip
