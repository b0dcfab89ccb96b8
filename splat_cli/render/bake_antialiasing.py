"""Baking of antialiasing into splats, for viewers without it.

Such a viewer dilates a projected splat by 0.3 px^2. Antialiasing dilates it by 0.1 px^2 and lowers its opacity by the
ratio of areas (Mip-Splatting, Yu et al. 2024, sec. 5.2). Both effects depend on the distance; a file has one value per
splat.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from splat_cli.device import Backend, DeviceArray
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import LOG_SCALES, OPACITY, Splats
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import Projection, project
from splat_cli.scene.view import View, evenly_spread

MAX_VIEWS = 64  # rendered, evenly spread over all views
OPACITIES = 1e-4, 1 - 1e-6  # range after baking
NARROWING = 0.1  # px^2; the full difference, 0.2, would leave gaps in nearer views
NARROWEST = 0.01  # px^2, unless a splat was narrower before


def bake_antialiasing(backend: Backend, splats: SplatArrays, views: Sequence[View]) -> SplatArrays:
    """The antialiased splats, converted by `without_antialiasing`; higher SH coefficients are kept."""
    baked = without_antialiasing(Splats.from_arrays(backend, splats), views).to_arrays()
    return dataclasses.replace(
        splats, log_scales=baked.log_scales, logit_opacities=baked.logit_opacities, antialiased=False
    )


def without_antialiasing(splats: Splats, views: Sequence[View], max_views: int = MAX_VIEWS) -> Splats:
    """Splats that render without antialiasing like `splats`, of SH degree 0, with antialiasing.

    Splats become slightly narrower and keep opacity times area, summed over the views that show them. Splats that no
    view shows do not change. At most `max_views` views are rendered.
    """
    backend, xp = splats.backend, splats.backend.xp
    cameras = CameraTable(backend, evenly_spread(views, max_views))
    narrow = Splats(backend, splats.params[:14, : splats.num].copy(), splats.num)
    narrow.params[LOG_SCALES] = _narrowed(splats, cameras)
    wanted, baked = _Projected(splats, cameras, antialias=True), _Projected(narrow, cameras, antialias=False)
    covered, area = xp.zeros(splats.num, "float32"), xp.zeros(splats.num, "float32")
    for view in range(len(cameras.views)):
        areas, wanted_areas = baked.areas(view), wanted.areas(view)
        covered += xp.where(areas > 0, wanted_areas * wanted.opacities, 0)
        area += areas
    opacities = xp.clip(covered / xp.where(area > 0, area, 1), *OPACITIES)
    narrow.params[OPACITY] = xp.where(area > 0, xp.log(opacities / (1 - opacities)), narrow.params[OPACITY])
    return narrow


@np.errstate(over="ignore", divide="ignore")  # splats too large or too far away to be visible
def _narrowed(splats: Splats, cameras: CameraTable) -> DeviceArray:
    """Log scales float32 [3, num], narrowed by the harmonic mean over views of a pixel's variance at the splat."""
    xp, num = splats.backend.xp, splats.num
    projected = _Projected(splats, cameras, antialias=False)
    count, pixels = xp.zeros(num, "float32"), xp.zeros(num, "float32")  # a pixel: 1 / (world units)^2
    for index, view in enumerate(cameras.views):
        seen = projected.areas(index) > 0
        count += seen
        pixels += xp.where(seen, view.fx * view.fy / xp.where(seen, projected.depths, 1) ** 2, 0)
    pixel = count / xp.where(count > 0, pixels, 1)
    log_scales = splats.params[LOG_SCALES, :num]
    variances = xp.exp(2 * log_scales)
    if splats.smooth_3d_sigmas is not None:
        variances += splats.smooth_3d_sigmas[:, :num] ** 2
    narrowed = xp.maximum(variances - NARROWING * pixel, xp.minimum(variances, NARROWEST * pixel))
    return xp.where((count > 0) & (narrowed > 0), 0.5 * xp.log(narrowed), log_scales)  # 0: too flat for float32


class _Projected:
    """Projects splats into one view after the other (`areas`); `depths` and `opacities` refer to the last view."""

    def __init__(self, splats: Splats, cameras: CameraTable, antialias: bool) -> None:
        self._splats, self._cameras, self._antialias = splats, cameras, antialias
        self._state = IterState(splats.backend, num_splats=splats.num)
        self._projection = Projection.allocate(splats.backend, splats.capacity, cameras.max_tiles)

    def areas(self, view: int) -> DeviceArray:
        """Square root of the determinant of each splat's 2D covariance, float32 [num], px^2; 0 for invisible splats."""
        xp = self._splats.backend.xp
        self._state.clear_counts()
        self._state.write(view=view)
        self._projection.tile_counts[...] = 0
        project(self._splats, self._cameras, self._state, self._antialias, self._projection)
        seen = self.depths > 0
        a, b, c = (xp.where(seen, row, 1) for row in self._projection.conic_opacity[: self._splats.num, :3].T)
        determinants = xp.maximum(a * c - b * b, 1e-6 * a * c)  # rounding could make it negative
        return xp.where(seen, 1 / xp.sqrt(determinants), 0)

    @property
    def depths(self) -> DeviceArray:
        """float32 [num]; 0 for invisible splats."""
        return self._projection.depths[: self._splats.num]

    @property
    def opacities(self) -> DeviceArray:
        """float32 [num], after compensation; 0 for invisible splats, for which `project` writes nothing."""
        return self._splats.backend.xp.where(self.depths > 0, self._projection.conic_opacity[: self._splats.num, 3], 0)
