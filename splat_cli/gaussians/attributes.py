"""Attributes of splats: opacities, and the degree of their spherical harmonics."""

import dataclasses

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays


def limit_sh_degree(splats: SplatArrays, degree: int) -> SplatArrays:
    """The splats with spherical harmonics of at most `degree`; higher coefficients are dropped."""
    kept = (degree + 1) ** 2 - 1
    return dataclasses.replace(splats, shN=np.ascontiguousarray(splats.shN[:, :kept]))


def opacities(splats: SplatArrays) -> np.ndarray:
    """Opacity of each splat, 0 to 1, float64 [N]."""
    return np.exp(-np.logaddexp(0.0, -splats.logit_opacities.astype(np.float64)))
