"""Adam moments; cuda_src/optim/adam.cuh applies the updates inside the backward kernels."""

from __future__ import annotations

from splat_cli.gaussians.splats import Splats


class Moments:
    """First and second moments of all parameters, float32 [rows, capacity], in the layout of the splats' planes."""

    def __init__(self, splats: Splats) -> None:
        self.first = splats.backend.xp.zeros_like(splats.params)
        self.second = splats.backend.xp.zeros_like(splats.params)
