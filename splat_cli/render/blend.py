"""Blending and its gradient: host side of cuda_src/raster/blend.cu and blend_backward.cu."""

from __future__ import annotations

from dataclasses import dataclass

from splat_cli.device import Backend, DeviceArray, MemoryCost, launch
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import SEGMENT_BINS, IterState
from splat_cli.render.project import Projection
from splat_cli.render.tiles import TileLists

SEGMENT = 256  # pairs between saved states, as in cuda_src/common.cuh
FORWARD_WARPS, BACKWARD_WARPS = {False: 4, True: 8}, 4  # per block: 8 / PIXELS of the kernel. By FEW_TILES
BACKWARD_BLOCKS = 4096, 2  # maximum, but at least this many per tile: most segments have a block of their own
MIN_TILES = 2000  # with fewer, a GPU is not occupied if a lane of `blend` has two pixels


@dataclass
class RenderBuffers:
    """The rendered image of one view and its gradient: `blend` writes it, losses and the backward pass read it.

    For views of up to `max_pixels`; smaller views use the first part, without padding. image, d_image: float32
    [3 * max_pixels] as planes [3, H, W]; final_T: float32 [max_pixels].
    For the backward pass, else None: states: float32 [max_segments, 4, 256]; segments: uint32 [SEGMENT_BINS,
    max_segments, 2], see cuda_src/raster/blend.cuh.
    """

    image: DeviceArray
    final_T: DeviceArray
    d_image: DeviceArray | None = None
    states: DeviceArray | None = None
    segments: DeviceArray | None = None

    @staticmethod
    def memory_cost(training: bool, count: int = 1) -> MemoryCost:
        """Device memory of the buffers of `count` views; the last segment of a tile may be partly filled."""
        segment = count * (4 * 4 * 256 + 8 * SEGMENT_BINS) * training
        return MemoryCost(per_pixel=4 * count * (4 + 3 * training), per_pair=segment / SEGMENT, per_tile=segment)

    @classmethod
    def allocate(
        cls, backend: Backend, max_pixels: int, max_tiles: int, pair_capacity: int, training: bool
    ) -> RenderBuffers:
        """Uninitialised buffers for the largest view. training: include buffers of the backward pass."""
        empty, max_segments = backend.xp.empty, pair_capacity // SEGMENT + max_tiles + 1
        rendered = cls(
            image=empty(3 * max_pixels, "float32"),
            final_T=empty(max_pixels, "float32"),
        )
        if training:
            rendered.d_image = empty(3 * max_pixels, "float32")
            rendered.states = empty((max_segments, 4, 256), "float32")
            rendered.segments = empty((SEGMENT_BINS, max_segments, 2), "uint32")
        return rendered

    @property
    def max_segments(self) -> int:
        """Number of segments for which there is room in each bin."""
        return 0 if self.segments is None else self.segments.shape[1]


def blend(
    cameras: CameraTable,
    state: IterState,
    projection: Projection,
    tiles: TileLists,
    out: RenderBuffers,
    light_left: int | None = None,
) -> None:
    """Composite each tile's splats front to back over the state's background (Kerbl et al. 2023, sec. 6).

    light_left: instead, take the colour of the first splat behind which less than this percentage of the light is left;
    zeros where more is left behind all splats.
    """
    lists = tiles.tile_order, tiles.tile_begins, tiles.splat_from_pair
    splats = projection.means2d, projection.conic_opacity, projection.colors
    outputs = out.image, out.final_T, out.states, out.segments, out.max_segments
    few = tiles.backend.name == "cuda" and cameras.extent.tiles < MIN_TILES
    defines = (
        cameras.wrap_defines | ({"LIGHT_LEFT": light_left} if light_left else {}) | ({"FEW_TILES": 1} if few else {})
    )
    kernel = tiles.backend.kernel("raster/blend", "blend", **defines)
    kernel((cameras.extent.tiles,), (32, FORWARD_WARPS[few]), cameras.array, state.array, *lists, *splats, *outputs)


def blend_scores(
    cameras: CameraTable,
    state: IterState,
    projection: Projection,
    tiles: TileLists,
    rendered: RenderBuffers,
    errors: DeviceArray,
    scores: DeviceArray,
    *,
    fixed_sums: bool = False,
    by_segments: bool = False,
) -> None:
    """Add each splat's blending weight (px), and its share of the errors, to scores float32 [capacity, 2].

    errors: float32 [3 * max_pixels], per pixel and channel. fixed_sums: add 64-bit integers to scores [capacity, 4]
    instead (cuda_src/raster/blend_scores.cu). by_segments: one block per segment that `blend` has stored in
    rendered.segments and states, not per tile; sums are the same, in another order.
    """
    segments, states = (rendered.segments, rendered.states) if by_segments else (None, None)
    blocks = cameras.extent.tiles if segments is None else rendered.max_segments
    lists = tiles.tile_order, segments, rendered.max_segments, states, tiles.tile_begins, tiles.splat_from_pair
    inputs = projection.means2d, projection.conic_opacity, projection.colors, errors
    defines = ({"FIXED_SUMS": 1} if fixed_sums else {}) | cameras.wrap_defines
    kernel = tiles.backend.kernel("raster/blend_scores", "blend_scores", **defines)
    kernel((blocks,), (32, BACKWARD_WARPS), cameras.array, state.array, *lists, *inputs, scores)


def backward_blocks(rendered: RenderBuffers, cameras: CameraTable) -> int:
    """Number of blocks of `blend_backward`; with more segments, blocks take several."""
    most, per_tile = BACKWARD_BLOCKS
    return min(rendered.max_segments, max(most, per_tile * cameras.extent.tiles))


def blend_backward(
    cameras: CameraTable,
    state: IterState,
    projection: Projection,
    tiles: TileLists,
    rendered: RenderBuffers,
    absgrad: bool,
    matrix_sums: bool = False,
) -> None:
    """Add the gradients of the blend to projection.d_splats, given rendered.d_image.

    absgrad: also sum absolute gradients of means2d (AbsGS, Ye et al. 2024). With projection.fixed_sums the result has
    the same bits each time. matrix_sums: sum over pixels on tensor cores, if available and without fixed_sums and
    absgrad: in tf32, with an error of at most 2^-10 per term.
    """
    assert rendered.segments is not None
    fixed = projection.fixed_sums
    defines = ({"ABSGRAD": 1} if absgrad else {}) | ({} if fixed is None else {"FIXED_SUMS": 1})
    if matrix_sums and not defines and tiles.backend.name == "cuda":
        defines = {"MATRIX_SUMS": 1}
    defines = defines | cameras.wrap_defines
    lists = rendered.segments, rendered.max_segments, tiles.tile_begins, tiles.splat_from_pair
    splats = projection.means2d, projection.conic_opacity, projection.colors
    pixels = rendered.image, rendered.states, rendered.d_image
    inputs = cameras.array, state.array, *lists, *splats, *pixels
    kernel = tiles.backend.kernel("raster/blend_backward", "blend_backward", **defines)
    blocks = backward_blocks(rendered, cameras)
    kernel((blocks,), (32, BACKWARD_WARPS), *inputs, projection.d_splats if fixed is None else fixed)
    if fixed is not None:
        sums = projection.depths, projection.conic_opacity, fixed, projection.d_splats
        arrays = cameras.array, state.array, *sums
        launch(tiles.backend, "raster/fixed_to_float", "fixed_to_float", len(fixed), *arrays)
