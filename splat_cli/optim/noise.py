"""Exploration noise on positions: host side of cuda_src/optim/langevin_noise.cu."""

from __future__ import annotations

from splat_cli.gaussians.splats import Splats
from splat_cli.ranks.share import WHOLE, Share
from splat_cli.render.iter_state import IterState

THREADS = 256


def langevin_noise(splats: Splats, state: IterState, seed: int, noise_scale: float, share: Share = WHOLE) -> None:
    """Add noise to the means, with the splats' covariances, decreasing with opacity (3DGS-MCMC, eq. 9).

    share: splats that move.
    """
    columns = share.own_columns(splats.capacity)
    splats.backend.kernel("optim/langevin_noise", "langevin_noise")(
        (-(-columns // THREADS),), (THREADS,),
        state.array, splats.capacity, share.struct, seed, float(noise_scale), splats.params,
    )  # fmt: skip
