"""Conversion of splats for viser: centres, covariances, one colour and opacity each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from splat_cli.gaussians.init import SH_C0
from splat_cli.gaussians.rotations import rotations
from splat_cli.gaussians.splats import LOG_SCALES, MEANS, OPACITY, QUATS, SH0, Splats
from splat_cli.render.bake_antialiasing import without_antialiasing
from splat_cli.scene.crop import Crop
from splat_cli.scene.view import View

_FAINTEST = 1 / 255
_LARGEST = 6e4  # maximum of covariances, stored as 16-bit floats


@dataclass(frozen=True)
class Appearance:
    """N splats, float32; colours, 0 to 1, without view dependence."""

    centers: np.ndarray  # [N, 3]
    covariances: np.ndarray  # [N, 3, 3]
    rgbs: np.ndarray  # [N, 3]
    opacities: np.ndarray  # [N, 1]

    def inside(self, crop: Crop) -> Appearance:
        """The splats with centres inside a region."""
        kept = crop.contains(self.centers)
        return Appearance(**{name: array[kept] for name, array in self.arrays().items()})

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name, in viser's order."""
        return dict(vars(self))


def appearance(splats: Splats, views: Sequence[View] = (), num_views: int = 64) -> Appearance:
    """Conversion of splats. views: of splats trained with antialiasing; at most `num_views` are used.

    Antialiased splats are baked for these views, since browsers render without antialiasing. Computed on the device, to
    reduce transfers. Invisible and non-finite splats are removed.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # non-finite splats are removed below
        if views and splats.num:
            splats = without_antialiasing(splats, views, num_views)
        xp, params = splats.backend.xp, splats.params[:, : splats.num]
        opacities = 1 / (1 + xp.exp(-params[OPACITY]))
        axes = rotations(xp, params[QUATS]) * xp.exp(params[LOG_SCALES]).T[:, None]  # [N, 3, 3], a column an axis
        covariances = xp.clip(xp.einsum("nik,njk->nij", axes, axes), -_LARGEST, _LARGEST)
    finite = xp.isfinite(params[:14]).all(axis=0) & xp.isfinite(covariances).all(axis=(1, 2))
    kept = finite & (opacities >= _FAINTEST)
    columns = (params[MEANS].T, covariances, xp.clip(0.5 + SH_C0 * params[SH0].T, 0, 1), opacities[:, None])
    return Appearance(*(splats.backend.download(xp.ascontiguousarray(column[kept])) for column in columns))
