"""Conversion of splats for viser: centres, covariances, one colour and opacity each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from splat_cli.gaussians.init import SH_C0
from splat_cli.gaussians.rotations import rotations
from splat_cli.gaussians.splats import LOG_SCALES, MEANS, OPACITY, QUATS, SH0, Splats
from splat_cli.render.bake_antialiasing import plain
from splat_cli.scene.crop import Crop
from splat_cli.scene.view import View

_FAINTEST = 1 / 255
_LARGEST = 6e4  # of a covariance: it becomes a 16-bit float


@dataclass(frozen=True)
class Appearance:
    """N splats, float32; the colours, 0 to 1, are those without direction."""

    centers: np.ndarray  # [N, 3]
    covariances: np.ndarray  # [N, 3, 3]
    rgbs: np.ndarray  # [N, 3]
    opacities: np.ndarray  # [N, 1]

    def inside(self, crop: Crop) -> Appearance:
        """Those whose centre is inside."""
        kept = crop.holds(self.centers)
        return Appearance(**{name: array[kept] for name, array in self.arrays().items()})

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name, in the order in which viser takes them."""
        return dict(vars(self))


def appearance(splats: Splats, views: Sequence[View] = (), num_views: int = 64) -> Appearance:
    """How the splats look. views: of splats trained with antialiasing, at most `num_views` are taken.

    They are baked for these views, since browsers draw without antialiasing. Computed on the device, so that little
    has to be copied and the host does nothing. Splats that cannot be seen or are not finite are left out.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is left out
        if views and splats.num:
            splats = plain(splats, views, num_views)
        xp, params = splats.backend.xp, splats.params[:, : splats.num]
        opacities = 1 / (1 + xp.exp(-params[OPACITY]))
        axes = rotations(xp, params[QUATS]) * xp.exp(params[LOG_SCALES]).T[:, None]  # [N, 3, 3], a column an axis
        covariances = xp.clip(xp.einsum("nik,njk->nij", axes, axes), -_LARGEST, _LARGEST)
    finite = xp.isfinite(params[:14]).all(axis=0) & xp.isfinite(covariances).all(axis=(1, 2))
    kept = finite & (opacities >= _FAINTEST)
    columns = (params[MEANS].T, covariances, xp.clip(0.5 + SH_C0 * params[SH0].T, 0, 1), opacities[:, None])
    return Appearance(*(splats.backend.download(xp.ascontiguousarray(column[kept])) for column in columns))
