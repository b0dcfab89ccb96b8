"""Exploration noise on positions: host side of cuda_src/optim/langevin_noise.cu."""

from __future__ import annotations

from splat_cli.device.launch import ceil_div
from splat_cli.gaussians.splats import Splats
from splat_cli.ranks.share import WHOLE, Share
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import ProjectedBatch

THREADS = 256


def langevin_noise(
    splats: Splats,
    state: IterState,
    seed: int,
    noise_scale: float,
    share: Share = WHOLE,
    visible_in: ProjectedBatch | None = None,
) -> None:
    """Add noise to the means, with the splats' covariances, decreasing with opacity (3DGS-MCMC, eq. 9).

    share: splats to move. visible_in: move only splats that a view of this batch shows; others are not read.
    """
    blocks, own = ceil_div(splats.capacity, THREADS), (state.array, splats.capacity, share.struct)
    strength = seed, float(noise_scale)
    if visible_in is None:
        kernel = splats.backend.kernel("optim/langevin_noise", "langevin_noise")
        kernel((blocks,), (THREADS,), *own, *strength, splats.params)
    else:
        kernel = splats.backend.kernel("optim/langevin_noise", "langevin_noise_of_visible", **visible_in.defines)
        kernel((blocks,), (THREADS,), *own, visible_in.layout, visible_in.depths, *strength, splats.params)
