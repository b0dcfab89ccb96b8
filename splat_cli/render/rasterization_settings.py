"""Settings of a rasterizer; its buffers depend on them, too."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RasterizationSettings:
    """Passes and options of a rasterizer.

    training: with a backward pass, and buffers for it. antialias: opacities are compensated for the low-pass filter (Yu
    et al. 2023, "Mip-Splatting"). deterministic: on a GPU, sums over pixels have the same bits each time. batch: views
    per update, which uses the mean of their gradients. updates: whether this rasterizer also updates the splats; with
    several GPUs, it does not. position_gradients: joint models write gradients of positions. matrix_sums:
    blend_backward sums on tensor cores, if available.
    """

    training: bool = False
    antialias: bool = False
    deterministic: bool = False
    batch: int = 1
    updates: bool = True
    position_gradients: bool = False
    matrix_sums: bool = False
