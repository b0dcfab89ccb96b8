"""Projection of splats into views, its buffers, and its backward pass with Adam in place.

Host side of project.cu, project_backward.cu and color_backward.cu in cuda_src/raster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from splat_cli.device import Backend, DeviceArray, MemoryCost, ceil_div, check_arrays, launch
from splat_cli.gaussians.splats import Splats
from splat_cli.ranks.protocol import WHOLE, Share
from splat_cli.render.camera import CAMERA_DTYPE, CameraTable
from splat_cli.render.iter_state import IterState


@dataclass(frozen=True)
class RasterizationSettings:
    """Passes and options of a rasterizer.

    training: with a backward pass, and buffers for it. antialias: opacities are compensated for the low-pass filter (Yu
    et al. 2023, "Mip-Splatting"). deterministic: on a GPU, sums over pixels have the same bits each time. batch: views
    per update, which uses the mean of their gradients. ahead: while a view of a batch is rendered, the next one is
    projected, into other buffers. branches: number of views of a batch that are rendered at the same time, each on a
    branch and in buffers of its own; 1: one after another. position_gradients: joint models write gradients of
    positions. matrix_sums: blend_backward sums on tensor cores, if available.
    """

    training: bool = False
    antialias: bool = False
    deterministic: bool = False
    batch: int = 1
    ahead: bool = False
    branches: int = 1
    position_gradients: bool = False
    matrix_sums: bool = False

    @property
    def num_buffers(self) -> int:
        """Number of views with buffers that only rendering needs."""
        return max(2 if self.ahead else 1, self.branches)


THREADS = 256
LANES = (32, THREADS // 32)  # the same block in two dimensions, for kernels that use lanes.cuh
SPLAT_SUMS = 12  # columns of `Projection.d_splats`, as in cuda_src/common.cuh
SUM_COLORS = slice(6, 9)  # columns of d_splats: gradient of the colour
BATCH_VIEW_BYTES = CAMERA_DTYPE.itemsize + 32  # size of `struct BatchView` in cuda_src/common.cuh
COUNT_STRIDE = 8  # words per counter of a tile, as in cuda_src/common.cuh
LARGE_BOX = 64  # splats with more tiles in their bounding box are queued, as in cuda_src/raster/tile_walk.cuh

# Mirrors `struct SlotLayout` in cuda_src/raster/slots.cuh.
SLOT_LAYOUT_DTYPE = np.dtype([
    ("columns", np.int32), ("rows", np.int32), ("sent_stride", np.int32),
])  # fmt: skip


@dataclass
class Projection:
    """Projected splats of one view, up to `capacity`, on the device; rows of culled splats are undefined.

    depths float32 [capacity], z, or 0 for a culled splat.  means2d float32 [capacity, 2] px.
    conic_opacity float32 [capacity, 4] (conic xx, xy, yy in px^-2; opacity).
    colors float32 [capacity, 4] (rgb, unused).
    tile_counts uint32 [max_tiles, COUNT_STRIDE]: in the first column; 0 except between `project` and `build`.
    large_splats uint32 [capacity]: the state's `num_large` splats whose tiles `project` left to `TileLists.build`.
    d_splats float32 [capacity, SPLAT_SUMS] (`struct SplatSums` in cuda_src/raster/splat_sums.cuh), only for training.
    d_means float32 [3, capacity]: gradients of positions that joint models write, if one of them does.
    fixed_sums float32 [capacity, 2 SPLAT_SUMS] (see cuda_src/raster/fixed_to_float.cu), only with --deterministic.
    """

    depths: DeviceArray
    means2d: DeviceArray
    conic_opacity: DeviceArray
    colors: DeviceArray
    tile_counts: DeviceArray
    large_splats: DeviceArray
    d_splats: DeviceArray | None = None
    d_means: DeviceArray | None = None
    fixed_sums: DeviceArray | None = None

    @staticmethod
    def memory_cost(settings: RasterizationSettings) -> MemoryCost:
        """Device memory of the buffers, including those of a ProjectedBatch."""
        per_view = 1 + 4 + SPLAT_SUMS * settings.training + 3 * settings.position_gradients
        fixed_sums = 2 * SPLAT_SUMS * settings.deterministic
        words = (2 + 4) * settings.num_buffers + settings.branches + settings.batch * per_view + fixed_sums
        return MemoryCost(per_splat=4 * words, per_tile=4 * COUNT_STRIDE * settings.branches)

    @classmethod
    def allocate(cls, backend: Backend, capacity: int, max_tiles: int) -> Projection:
        """Buffers for `capacity` splats of a view that is only rendered."""
        settings = RasterizationSettings()
        return ProjectedBatch.allocate(backend, capacity, settings).projections(backend, max_tiles, settings)[0]


@dataclass
class ProjectedBatch:
    """The views of one update, after their backward passes: input of `project_backward`.

    Arrays are as in Projection, for all views; in a batch, their first dimension is the view.
    `project_backward` replaces d_splats by `struct SplatRay` (cuda_src/raster/splat_sums.cuh). views: `struct
    BatchView` [batch] (cuda_src/common.cuh), or None for one view.
    share: the updated splats; these arrays have only their `columns`. With several ranks, d_splats has only rows of
    visible splats: `sent` is their index (cuda_src/raster/visible.cuh), of messages with `sent_size`: rows, stride.
    layout: `struct SlotLayout` (cuda_src/raster/slots.cuh).
    """

    depths: DeviceArray
    colors: DeviceArray
    d_splats: DeviceArray | None
    d_means: DeviceArray | None = None
    views: DeviceArray | None = None
    share: Share = WHOLE
    sent: DeviceArray | None = None
    sent_size: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self.columns = int(self.depths.shape[-1])
        self.layout = np.array((self.columns, *(self.sent_size or (self.columns, 0))), SLOT_LAYOUT_DTYPE)
        sent = {} if self.sent is None else {"SENT": 1}
        self.defines = batch_defines(self.views) | sent  # for kernels that process all views at once

    @classmethod
    def allocate(cls, backend: Backend, capacity: int, settings: RasterizationSettings) -> ProjectedBatch:
        """Buffers for `capacity` splats."""
        batch, xp = settings.batch, backend.xp

        def empty(is_needed: bool, *shape: int) -> DeviceArray | None:
            return xp.empty((batch, *shape) if batch > 1 else shape, "float32") if is_needed else None

        return cls(
            depths=empty(True, capacity),
            colors=empty(True, capacity, 4),
            d_splats=empty(settings.training, capacity, SPLAT_SUMS),
            d_means=empty(settings.position_gradients, 3, capacity),
            views=xp.zeros((batch, BATCH_VIEW_BYTES), "uint8") if batch > 1 else None,
        )

    def projections(self, backend: Backend, max_tiles: int, settings: RasterizationSettings) -> list[Projection]:
        """Each view as a Projection of these arrays. Views share new buffers, which only rendering needs.

        With `ahead`, views alternate between two means2d and conic_opacity: one is projected while the last one is
        differentiated. Each of several branches has buffers of its own.
        """
        empty, zeros, capacity = backend.xp.empty, backend.xp.zeros, self.columns
        buffers = range(settings.num_buffers)
        means2d, conics = ([empty((capacity, n), "float32") for _ in buffers] for n in (2, 4))
        branches = range(settings.branches)
        tile_counts = [zeros((max_tiles, COUNT_STRIDE), "uint32") for _ in branches]
        large_splats = [empty(capacity, "uint32") for _ in branches]
        fixed_sums = zeros((capacity, 2 * SPLAT_SUMS), "float32") if settings.deterministic else None
        return [
            Projection(
                means2d=means2d[slot % settings.num_buffers],
                conic_opacity=conics[slot % settings.num_buffers],
                tile_counts=tile_counts[slot % settings.branches],
                large_splats=large_splats[slot % settings.branches],
                fixed_sums=fixed_sums,
                **self._of_view(slot),
            )
            for slot in range(settings.batch)
        ]

    def _of_view(self, slot: int) -> dict[str, DeviceArray | None]:
        arrays = {name: getattr(self, name) for name in ("depths", "colors", "d_splats", "d_means")}
        if self.views is None:
            return arrays
        return {name: None if array is None else array[slot] for name, array in arrays.items()}


def batch_defines(views: DeviceArray | None) -> dict[str, int]:
    """Defines of kernels that update from a batch of `struct BatchView`; None: from one view."""
    return {} if views is None else batch_size_defines(len(views))


def batch_size_defines(size: int) -> dict[str, int]:
    """Defines of kernels that update from a batch of `size` views."""
    return {"BATCH": size} if size > 1 else {}


def project(
    splats: Splats, cameras: CameraTable, state: IterState, antialias: bool, out: Projection, dropout: float = 0.0
) -> None:
    """Project every splat into the state's view and count each tile's splats (EWA splatting, Zwicker et al. 2001).

    out: overwritten; gradients of visible splats are cleared. dropout: fraction of splats dropped at random in each
    step (DropGaussian, Park et al. 2025, sec. 3.2); the opacities of the others are scaled to compensate. ShapeError if
    `out` has another capacity.
    """
    shapes = {"depths": "C", "means2d": "C 2", "conic_opacity": "C 4", "colors": "C 4"}
    outputs = {name: (getattr(out, name), "float32", shape) for name, shape in shapes.items()}
    check_arrays("project", params=(splats.params, "float32", "R C"), **outputs, **smooth_3d_array(splats))
    kernel = splats.backend.kernel("raster/project", "project", **cameras.defines, **dropout_defines(dropout))
    inputs = splats.params, splats.capacity, cameras.array, state.array
    options = int(antialias), float(dropout), splats.smooth_3d_sigmas
    projected = out.depths, out.means2d, out.conic_opacity, out.colors
    counts = out.tile_counts, out.large_splats
    kernel((ceil_div(splats.capacity, THREADS),), LANES, *inputs, *options, *projected, *counts, out.d_splats)


def dropout_defines(dropout: float) -> dict[str, int]:
    """Defines of `project` and `project_share`."""
    return {"DROPOUT": 1} if dropout else {}


def smooth_3d_array(splats: Splats) -> dict[str, tuple[DeviceArray, str, str]]:
    """The widths of the 3D filter, if any, for `check_arrays`."""
    return {} if splats.smooth_3d_sigmas is None else {"smooth_3d_sigmas": (splats.smooth_3d_sigmas, "float32", "1 C")}


def update_smooth_3d_sigmas(splats: Splats, cameras: CameraTable, variance: float) -> None:
    """Set splats.smooth_3d_sigmas from the sampling rate of `cameras` at each splat (Mip-Splatting, sec. 5.1).

    variance: filter variance, in squared pixel widths at the splat in the view with the highest sampling rate.
    """
    views, params = (cameras.array, len(cameras.views)), (splats.params, splats.capacity, splats.num)
    arguments = *views, *params, variance**0.5, splats.smooth_3d_sigmas
    launch(splats.backend, "optim/smooth_3d", "smooth_3d_sigmas", splats.capacity, *arguments, **cameras.lens_defines)


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
