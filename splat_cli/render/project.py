"""Projection of splats into a view, and its buffers: host side of cuda_src/raster/project.cu and project_share.cu."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from splat_cli.device import Backend, DeviceArray, check_arrays
from splat_cli.device.launch import ceil_div
from splat_cli.device.memory_cost import MemoryCost
from splat_cli.gaussians.splats import Splats
from splat_cli.ranks.share import Share
from splat_cli.render.camera import CAMERA_DTYPE, CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.rasterization_settings import RasterizationSettings

THREADS = 256
LANES = (32, THREADS // 32)  # a block of as many threads, for kernels over lanes.cuh
SPLAT_SUMS = 12  # columns of `Projection.d_splats`, as in cuda_src/common.cuh
SUM_COLORS = slice(6, 9)  # of these: dL/d colour
BATCH_VIEW_BYTES = CAMERA_DTYPE.itemsize + 32  # of `struct BatchView` in cuda_src/common.cuh
LARGE_BOX = 64  # tiles of a bounding box, as in cuda_src/raster/tile_walk.cuh: splats with more are queued

# Mirrors `struct SlotLayout` in cuda_src/raster/slots.cuh.
SLOT_LAYOUT_DTYPE = np.dtype([
    ("columns", np.int32), ("rows", np.int32), ("sent_stride", np.int32),
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
    means2d and conic_opacity have a first dimension of 2: a view is projected while the one before is differentiated.
    With several ranks: layout, `struct SlotLayout`, since d_splats has rows of visible splats only, whose index is
    `sent` (cuda_src/raster/visible.cuh).
    """

    depths: DeviceArray
    means2d: DeviceArray
    conic_opacity: DeviceArray
    colors: DeviceArray
    tile_counts: DeviceArray
    large_splats: DeviceArray
    d_splats: DeviceArray | None
    d_rays: DeviceArray | None
    fixed_sums: DeviceArray | None = None
    views: DeviceArray | None = None
    layout: np.ndarray | None = None
    sent: DeviceArray | None = None

    @staticmethod
    def memory_cost(settings: RasterizationSettings) -> MemoryCost:
        """Device memory of the buffers."""
        of_view = 1 + 4 + (SPLAT_SUMS + 6 * settings.updates) * settings.training
        fixed_sums = 2 * SPLAT_SUMS * settings.deterministic
        words = (2 + 4) * num_ahead(settings.batch) + 1 + settings.batch * of_view + fixed_sums
        return MemoryCost(per_splat=4 * words, per_tile=4)

    @classmethod
    def allocate(
        cls, backend: Backend, capacity: int, max_tiles: int, settings: RasterizationSettings
    ) -> Projection:  # fmt: skip
        """Buffers for `capacity` splats."""
        training, batch = settings.training, settings.batch
        empty, slots = backend.xp.empty, (batch,) if batch > 1 else ()
        ahead = (num_ahead(batch),) if batch > 1 else ()
        return cls(
            depths=empty((*slots, capacity), "float32"),
            means2d=empty((*ahead, capacity, 2), "float32"),
            conic_opacity=empty((*ahead, capacity, 4), "float32"),
            colors=empty((*slots, capacity, 4), "float32"),
            tile_counts=backend.xp.zeros(max_tiles, "uint32"),
            large_splats=empty(capacity, "uint32"),
            d_splats=empty((*slots, capacity, SPLAT_SUMS), "float32") if training else None,
            d_rays=empty((*slots, 6, capacity), "float32") if training and settings.updates else None,
            fixed_sums=backend.xp.zeros((capacity, 2 * SPLAT_SUMS), "float32") if settings.deterministic else None,
            views=backend.xp.zeros((batch, BATCH_VIEW_BYTES), "uint8") if slots else None,
        )

    @property
    def batch_defines(self) -> dict[str, int]:
        """Defines of kernels that process a batch of views at once."""
        return batch_defines(self.views)

    def layout_of(self, columns: int) -> np.ndarray:
        """`struct SlotLayout` of arrays with this number of columns."""
        return np.array((columns, columns, 0), SLOT_LAYOUT_DTYPE) if self.layout is None else self.layout

    def slot(self, view: int) -> Projection:
        """The projection of one view of the batch. Buffers that only rendering needs are common to views."""
        names = "depths", "colors", "d_splats", *(["d_rays"] if self.d_rays is not None else [])
        arrays = {name: getattr(self, name)[view] for name in names}
        alternating = {name: getattr(self, name)[view % 2] for name in ("means2d", "conic_opacity")}
        return dataclasses.replace(self, **arrays, **alternating, views=None)


def num_ahead(batch: int) -> int:
    """Number of views of a batch whose buffers for rendering exist at the same time."""
    return min(batch, 2)


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
    step (DropGaussian, Park et al. 2025, sec. 3.2); the opacities of the rest are scaled to compensate. ShapeError if
    `out` has another capacity.
    """
    shapes = {"depths": "C", "means2d": "C 2", "conic_opacity": "C 4", "colors": "C 4"}
    outputs = {name: (getattr(out, name), "float32", shape) for name, shape in shapes.items()}
    check_arrays("project", params=(splats.params, "float32", "R C"), **outputs, **smooth_3d_array(splats))
    splats.backend.kernel("raster/project", "project", **cameras.defines, **dropout_defines(dropout))(
        (ceil_div(splats.capacity, THREADS),), LANES,
        splats.params, splats.capacity, cameras.array, state.array, int(antialias), float(dropout),
        splats.smooth_3d_sigmas,
        out.depths, out.means2d, out.conic_opacity, out.colors, out.tile_counts, out.large_splats, out.d_splats,
    )  # fmt: skip


@dataclass(frozen=True)
class SentView:
    """A view into which a rank projects its share of the splats, for the rank that renders it.

    view: `struct BatchView`. depths: float32 [columns], z and 0 for a culled splat; colors: float32 [columns, 4]; these
    remain on the rank. slot: float32, of the visible splats (cuda_src/raster/visible.cuh), with room for `rows`.
    """

    view: DeviceArray
    depths: DeviceArray
    colors: DeviceArray
    slot: DeviceArray
    rows: int


def project_share(
    splats: Splats, cameras: CameraTable, state: IterState, antialias: bool, share: Share, out: SentView,
    dropout: float = 0.0,
) -> None:  # fmt: skip
    """Project the splats of `share` into the view `out`; see `project`. The number of visible ones is added to."""
    check_arrays(
        "project_share",
        params=(splats.params, "float32", "R C"),
        depths=(out.depths, "float32", "S"),
        colors=(out.colors, "float32", "S 4"),
        **smooth_3d_array(splats),
    )
    splats.backend.kernel("raster/project_share", "project_share", **cameras.defines, **dropout_defines(dropout))(
        (ceil_div(len(out.depths), THREADS),), LANES,
        splats.params, splats.capacity, state.array, out.view, int(antialias), float(dropout),
        share.struct, len(out.depths), out.rows, splats.smooth_3d_sigmas, out.depths, out.colors, out.slot,
    )  # fmt: skip


def dropout_defines(dropout: float) -> dict[str, int]:
    """Defines of `project` and `project_share`."""
    return {"DROPOUT": 1} if dropout else {}


def smooth_3d_array(splats: Splats) -> dict[str, tuple[DeviceArray, str, str]]:
    """The widths of the 3D filter, if there are any, for `check_arrays`."""
    return {} if splats.smooth_3d_sigmas is None else {"smooth_3d_sigmas": (splats.smooth_3d_sigmas, "float32", "1 C")}
