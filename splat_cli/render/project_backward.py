"""Gradients of raw parameters, and Adam in place: host side of raster/project_backward.cu and color_backward.cu."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from splat_cli.device import DeviceArray, ceil_div, check_arrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import LANES, SPLAT_SUMS, THREADS, ProjectedBatch, smooth_3d_array

GEOMETRY_THREADS = 128
GEOMETRY_LANES = (32, GEOMETRY_THREADS // 32)  # a block of project_backward
COEFFICIENTS = 8  # view-dependent coefficients per lane of color_backward
ALL_WARPS, UNSEEN_WARPS, SEEN_WARPS = range(3)  # as in cuda_src/raster/update.cuh

# Mirrors `struct UpdateOptions` in cuda_src/raster/update.cuh.
UPDATE_OPTIONS_DTYPE = np.dtype([
    ("antialias", np.int32), ("dense", np.int32), ("absgrad", np.int32), ("warps", np.int32),
    ("opacity_reg", np.float32), ("scale_reg", np.float32), ("noise_seed", np.uint32), ("noise_scale", np.float32),
])  # fmt: skip


@dataclass
class Update:
    """What project_backward does with the gradients of raw parameters: Adam in place, or stored in `d_params`.

    moments: Adam's (see model.model.zero_moments); then Adam is applied in place. d_params: without moments, the
    gradients are stored here. stats: float32 [2, capacity], sums for densification. last_seen: float32
    [capacity], set to the step if the splat's colour has a gradient. has_frozen: moments, stats and last_seen lack
    columns of frozen splats (see model.model.num_without_moments).

    dense: Adam also moves splats that no view of the batch shows, except their view-dependent colours; their only
    gradients are those of regularisers. If false, their parameters, moments and gradients do not change. warps:
    UNSEEN_WARPS: only splats of warps that no view of the batch shows, which needs no gradients; SEEN_WARPS: only the
    others.

    absgrad: `stats` sum |d mean2d| of pixels (AbsGS). opacity_reg, scale_reg: weights of the mean opacity and the mean
    scale in the loss. noise_scale: after Adam, the means of updated splats get noise with the splats' covariances,
    which decreases with opacity (3DGS-MCMC, Kheradmand et al. 2024, eq. 9), this many times the learning rate of means;
    0: no noise.
    """

    moments: DeviceArray | None = None
    d_params: DeviceArray | None = None
    stats: DeviceArray | None = None
    last_seen: DeviceArray | None = None
    has_frozen: bool = False
    dense: bool = True
    warps: int = ALL_WARPS
    absgrad: bool = False
    opacity_reg: float = 0.0
    scale_reg: float = 0.0
    noise_seed: int = 0
    noise_scale: float = 0.0

    @property
    def defines(self) -> dict[str, int]:
        """Defines of project_backward and color_backward."""
        return ({} if self.moments is None else {"FUSED_ADAM": 1}) | ({"FROZEN": 1} if self.has_frozen else {})

    def options(self, antialias: bool) -> np.ndarray:
        """`struct UpdateOptions`."""
        values = antialias, self.dense, self.absgrad, self.warps, self.opacity_reg, self.scale_reg
        return np.array((*values, self.noise_seed, self.noise_scale), UPDATE_OPTIONS_DTYPE)


def project_backward(
    splats: Splats, cameras: CameraTable, state: IterState, antialias: bool, batch: ProjectedBatch, update: Update
) -> None:
    """Gradients of raw parameters from gradients of projected splats, and Adam if `update` has moments.

    Takes the mean over the views of `batch`. One step of Adam then equals `size` steps with independent gradients:
    learning rates times sqrt(size), decay rates of moments to the power of size. ShapeError if an array has another
    capacity or SH degree.
    """
    _geometry_backward(splats, cameras, state, antialias, batch, update)
    _color_backward(splats, state, antialias, batch, update)


def _geometry_backward(
    splats: Splats, cameras: CameraTable, state: IterState, antialias: bool, batch: ProjectedBatch, update: Update
) -> None:
    """The first half of `project_backward`: geometry, constant colours; leaves rays in batch.d_splats."""
    layout, slots = batch.layout, "" if batch.views is None else f"{len(batch.views)} "
    whole_share = batch.share.num_ranks == 1
    columns = "M" if update.has_frozen else "C"
    targets = {"moments": f"S {columns}", "d_params": "R C"}
    arrays = {name: getattr(update, name) for name in targets}
    given = {name: (array, "float32", targets[name]) for name, array in arrays.items() if array is not None}
    check_arrays(
        "project_backward",
        params=(splats.params, "float32", "R C"),
        depths=(batch.depths, "float32", f"{slots}C" if whole_share else f"{slots}{batch.columns}"),
        d_splats=(batch.d_splats, "float32", f"{slots}{layout['rows']} {SPLAT_SUMS}"),
        **given,
        **smooth_3d_array(splats),
    )
    defines = update.defines | cameras.defines | batch.defines
    kernel = splats.backend.kernel("raster/project_backward", "project_backward", **defines)
    options = splats.capacity, update.options(antialias), batch.share.struct, layout
    projected = batch.views, batch.depths, batch.colors, batch.d_splats, batch.sent, batch.d_means
    outputs = splats.params, update.moments, update.d_params, update.stats, update.last_seen
    inputs = cameras.array, state.array, *options, *projected, splats.smooth_3d_sigmas
    kernel((ceil_div(batch.columns, GEOMETRY_THREADS),), GEOMETRY_LANES, *inputs, *outputs)


def _color_backward(splats: Splats, state: IterState, antialias: bool, batch: ProjectedBatch, update: Update) -> None:
    """The second half: view-dependent colours, which change only in warps that a view of the batch shows."""
    num_coefficients = (splats.sh_degree + 1) ** 2
    parts = ceil_div(num_coefficients - 1, COEFFICIENTS)
    if parts == 0 or update.warps == UNSEEN_WARPS:
        return
    defines = update.defines | batch.defines
    options = splats.capacity, num_coefficients, update.options(antialias), batch.share.struct, batch.layout
    inputs = state.array, *options, batch.views, batch.depths, batch.d_splats, batch.sent
    kernel = splats.backend.kernel("raster/color_backward", "color_backward", **defines)
    kernel((ceil_div(batch.columns, THREADS) * parts,), LANES, *inputs, splats.params, update.moments, update.d_params)
