"""Projection of splats and its gradient: host side of cuda_src/raster/project.cu and project_backward.cu."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from splat_cli.device import Backend, check_arrays
from splat_cli.device.memory_cost import MemoryCost
from splat_cli.gaussians.splats import Splats
from splat_cli.ranks.share import WHOLE, Share
from splat_cli.render.camera import CAMERA_DTYPE, CameraTable
from splat_cli.render.iter_state import IterState

THREADS = 256
LANES = (32, THREADS // 32)  # a block of as many threads, for kernels over lanes.cuh
VISIBLE_DEFINES = {"COEFFICIENTS": 4}  # of project_backward.cu, where an update leaves invisible splats alone
SPLAT_SUMS = 12  # columns of `Projection.d_splats`, as in cuda_src/common.cuh
BATCH_VIEW_BYTES = CAMERA_DTYPE.itemsize + 24  # of `struct BatchView` in cuda_src/common.cuh
SUM_COLORS = slice(6, 9)  # of these: dL/d colour
LARGE_BOX = 64  # tiles of a bounding box, as in cuda_src/raster/tile_walk.cuh: splats with more are queued

# Mirrors `struct SlotLayout` in cuda_src/raster/slots.cuh.
SLOT_LAYOUT_DTYPE = np.dtype([
    ("num_ranks", np.int32), ("views_per_rank", np.int32), ("columns", np.int32),
    ("depth_stride", np.int32), ("color_stride", np.int32),
])  # fmt: skip

# Mirrors `struct UpdateOptions` in cuda_src/raster/update.cuh.
UPDATE_OPTIONS_DTYPE = np.dtype([
    ("antialias", np.int32), ("dense", np.int32), ("absgrad", np.int32),
    ("opacity_reg", np.float32), ("scale_reg", np.float32),
])  # fmt: skip


@dataclass
class Projection:
    """Projected splats of a view, up to `capacity`, on the device; rows of culled splats are undefined.

    depths float32 [capacity], z and 0 for a culled splat.  means2d float32 [capacity, 2] px.
    conic_opacity float32 [capacity, 4].  colors float32 [capacity, 4] (rgb, unused).
    tile_counts uint32 [max_tiles]: 0 but between `project` and `TileLists.build`.
    large_splats uint32 [capacity]: the state's `num_large` splats whose tiles `project` left to `TileLists.build`.
    d_splats float32 [capacity, SPLAT_SUMS] (`struct SplatSums` in cuda_src/raster/splat_sums.cuh) and d_rays float32
    [6, capacity] (see cuda_src/raster/project_backward.cu), only for training.
    fixed_sums float32 [capacity, 2 SPLAT_SUMS] (see cuda_src/raster/fixed_to_float.cu), only with --deterministic.
    views: `struct BatchView` [batch] (cuda_src/common.cuh) where this holds a batch of views, else None; depths,
    colors, d_splats and d_rays then have this first dimension, and `slot` is the projection of one of the views.
    layout: `struct SlotLayout` where views do not simply follow one another; depths and colors are then flat.
    """

    depths: Any
    means2d: Any
    conic_opacity: Any
    colors: Any
    tile_counts: Any
    large_splats: Any
    d_splats: Any | None
    d_rays: Any | None
    fixed_sums: Any | None = None
    views: Any | None = None
    layout: np.ndarray | None = None

    @staticmethod
    def memory_cost(training: bool, deterministic: bool, batch: int = 1) -> MemoryCost:
        """Device memory of the buffers."""
        words = (2 + 4 + 1) + batch * (1 + 4 + (SPLAT_SUMS + 6) * training) + 2 * SPLAT_SUMS * deterministic
        return MemoryCost(per_splat=4 * words, per_tile=4)

    @classmethod
    def allocate(
        cls, backend: Backend, capacity: int, max_tiles: int, training: bool, batch: int = 1
    ) -> Projection:  # fmt: skip
        """Buffers for `capacity` splats. batch: number of views that one update is made from."""
        empty, slots = backend.xp.empty, (batch,) if batch > 1 else ()
        return cls(
            depths=empty((*slots, capacity), "float32"),
            means2d=empty((capacity, 2), "float32"),
            conic_opacity=empty((capacity, 4), "float32"),
            colors=empty((*slots, capacity, 4), "float32"),
            tile_counts=backend.xp.zeros(max_tiles, "uint32"),
            large_splats=empty(capacity, "uint32"),
            d_splats=empty((*slots, capacity, SPLAT_SUMS), "float32") if training else None,
            d_rays=empty((*slots, 6, capacity), "float32") if training else None,
            views=backend.xp.zeros((batch, BATCH_VIEW_BYTES), "uint8") if slots else None,
        )

    @property
    def batch_defines(self) -> dict[str, int]:
        """Defines of kernels that process a batch of views at once."""
        return {} if self.views is None else {"BATCH": len(self.views)}

    def layout_of(self, columns: int) -> np.ndarray:
        """`struct SlotLayout` of arrays with this number of columns."""
        return np.array((1, 1, columns, columns, columns), SLOT_LAYOUT_DTYPE) if self.layout is None else self.layout

    def slot(self, view: int) -> Projection:
        """The projection of one view of the batch. Buffers that only rendering needs are common to all views."""
        arrays = {name: getattr(self, name)[view] for name in ("depths", "colors", "d_splats", "d_rays")}
        return dataclasses.replace(self, **arrays, views=None)


def project(
    splats: Splats, cameras: CameraTable, state: IterState, antialias: bool, out: Projection, dropout: float = 0.0,
    share: Share = WHOLE,
) -> None:  # fmt: skip
    """Project every splat into the state's view and count each tile's splats (EWA splatting, Zwicker et al. 2001).

    out: overwritten; gradients of visible splats are cleared. dropout: fraction of splats dropped at random, others in
    each step; the opacities of the rest are scaled to compensate.
    share: splats to project; `out` has room for them only, and no tile_counts where they are not all.
    ShapeError if `out` has another capacity.
    """
    columns = "C" if share.num_ranks == 1 else "S"
    check_arrays(
        "project",
        params=(splats.params, "float32", "R C"),
        depths=(out.depths, "float32", columns),
        means2d=(out.means2d, "float32", f"{columns} 2"),
        conic_opacity=(out.conic_opacity, "float32", f"{columns} 4"),
        colors=(out.colors, "float32", f"{columns} 4"),
        **_smooth_3d(splats),
    )
    defines = cameras.defines | ({"DROPOUT": 1} if dropout else {})
    splats.backend.kernel("raster/project", "project", **defines)(
        (-(-len(out.depths) // THREADS),), LANES,
        splats.params, splats.capacity, cameras.array, state.array, int(antialias), share.struct, out.depths,
        out.means2d, out.conic_opacity, out.colors, out.tile_counts, out.large_splats, out.d_splats,
        splats.smooth_3d_sigmas, float(dropout),
    )  # fmt: skip


def _smooth_3d(splats: Splats) -> dict[str, tuple[Any, str, str]]:
    return {} if splats.smooth_3d_sigmas is None else {"smooth_3d_sigmas": (splats.smooth_3d_sigmas, "float32", "1 C")}


@dataclass
class Update:
    """Use of the gradients of raw parameters by project_backward.

    With moments (float32 [rows, capacity] each; moments1 alone: packed, see optim.adam.Moments) Adam is applied in
    place; with d_params they are stored instead.
    stats: float32 [2, capacity] sums for densification, or None.  d_means: float32 [3, capacity], added to the
    gradients of visible splats' positions, or None; of a batch: float32 [size, 3, capacity].
    dense: splats that no view of the batch shows get gradients of zero and of the regularisers; else parameters,
    moments and stored gradients of such splats are neither read nor written.
    """

    moments1: Any | None = None
    moments2: Any | None = None
    d_params: Any | None = None
    stats: Any | None = None
    d_means: Any | None = None
    dense: bool = True
    absgrad: bool = False
    opacity_reg: float = 0.0
    scale_reg: float = 0.0

    @property
    def defines(self) -> dict[str, int]:
        """Defines of the kernels."""
        packed = self.moments1 is not None and self.moments2 is None
        return (
            ({"FUSED_ADAM": 1} if self.moments1 is not None else {})
            | ({"BF16_MOMENTS": 1} if packed else {})
            | ({} if self.dense else VISIBLE_DEFINES)
        )

    @property
    def moments(self) -> tuple[Any, Any]:
        """Both planes as kernels take them, also where there is only one."""
        return self.moments1, self.moments1 if self.moments2 is None else self.moments2


def project_backward(
    splats: Splats, cameras: CameraTable, state: IterState, antialias: bool, projection: Projection, update: Update,
    share: Share = WHOLE,
) -> None:  # fmt: skip
    """Gradients of raw parameters from those of projected splats, and Adam if `update` has moments.

    Reads projection.d_splats. Of a batch, it takes the mean over the views; Adam then moves as far as in as many steps
    with independent gradients: learning rates times sqrt(size), decay rates of moments to the power of size.
    share: splats to update; projection holds these only. ShapeError if an array has another capacity or SH degree.
    """
    views, columns = projection.views, share.own_columns(splats.capacity)
    slots = "" if views is None else f"{len(views)} "
    planes = {"d_params": update.d_params, "moments1": update.moments1, "moments2": update.moments2}
    given = {name: (array, "float32", "R C") for name, array in planes.items() if array is not None}
    check_arrays(
        "project_backward",
        params=(splats.params, "float32", "R C"),
        d_splats=(projection.d_splats, "float32", f"{slots}{columns} {SPLAT_SUMS}"),
        d_rays=(projection.d_rays, "float32", f"{slots}6 {columns}"),
        **given,
        **_smooth_3d(splats),
    )
    defines = update.defines | cameras.defines | projection.batch_defines
    options = np.array(
        (antialias, update.dense, update.absgrad, update.opacity_reg, update.scale_reg), UPDATE_OPTIONS_DTYPE
    )
    blocks, num_coefficients = -(-columns // THREADS), (splats.sh_degree + 1) ** 2
    parts = -(-num_coefficients // defines.get("COEFFICIENTS", 1))
    layout = projection.layout_of(columns)
    targets = *update.moments, update.d_params
    splats.backend.kernel("raster/project_backward", "project_backward", **defines)(
        (blocks,), LANES,
        cameras.array, state.array, splats.capacity, options, share.struct, layout, views,
        projection.depths, projection.colors, projection.d_splats, update.d_means, splats.smooth_3d_sigmas,
        projection.d_rays, splats.params, *targets, update.stats,
    )  # fmt: skip
    splats.backend.kernel("raster/project_backward", "color_backward", **defines)(
        (blocks * parts,), LANES,
        state.array, splats.capacity, num_coefficients, int(update.dense), share.struct, layout, views,
        projection.depths, projection.d_rays, splats.params, *targets,
    )  # fmt: skip
