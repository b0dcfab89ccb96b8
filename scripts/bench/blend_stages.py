"""The backward pass of the blend in stages, from 3D Gaussian Splatting's to ours.

For `bench_kernels.py stages` and tests. The first stages are separate kernels (scripts/bench/kernels/stage*.cu), which
a backend with `sources=KERNELS` finds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from splat_cli.device import Backend, DeviceArray
from splat_cli.render.blend import BACKWARD_WARPS, backward_blocks, blend_backward
from splat_cli.render.camera import TILE
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import SPLAT_SUMS
from splat_cli.render.rasterizer import Rasterizer

KERNELS = Path(__file__).parent / "kernels"
BLOCKS_PER_SM = 8  # of 256 threads: as many as fit on any device; more would find the queue empty
BLOCKS_ON_CPU = 8
WIDE_ROW = 16  # floats: a row never crosses a cache line
Launch = Callable[[Rasterizer, IterState, DeviceArray, DeviceArray], None]


@dataclass(frozen=True)
class Source:
    """Published times of these stages, on an RTX 4090."""

    gb_per_s: float
    sm_percent: float
    ms: float


@dataclass(frozen=True)
class Stage:
    """One version of the backward pass.

    launch gets `last_pairs` and adds to rows float32 [capacity, columns] of splats, given rendered.d_image:
    gradients of mean2d (2), conic (3), opacity and colour (3), or with `moments` the sums of blend_backward.
    reads, adds: fields of Work (stage_passes.py): numbers of splats read from memory, and of rows of nine values added.
    """

    name: str
    launch: Launch
    reads: str
    adds: str
    source: Source | None = None
    moments: bool = False
    columns: int = SPLAT_SUMS
    cuda_only: bool = False


def gradients(stage: Stage, rows: np.ndarray, conics: np.ndarray, opacities: np.ndarray) -> np.ndarray:
    """The nine gradients float64 [N, 9] from rows [N, columns] of a stage. conics [N, 3], opacities [N]."""
    rows = rows[:, :9].astype(np.float64)
    if not stage.moments:
        return rows
    (a, b, c), (g, gx, gy, gxx, gxy, gyy) = conics.T, rows[:, :6].T
    of_ellipse = [a * gx + b * gy, b * gx + c * gy, -0.5 * gxx, -gxy, -0.5 * gyy, g / opacities]
    return np.concatenate([np.stack(of_ellipse, axis=1), rows[:, 6:]], axis=1)


def last_pairs(raster: Rasterizer, state: IterState) -> DeviceArray:
    """int32 [height, width]: the pair behind which a pixel of the last picture has ended, or the end of its list."""
    tiles, projection = raster.tiles, raster.projection
    last = raster.backend.xp.empty(len(raster.rendered.final_T), "int32")
    lists = tiles.tile_begins, tiles.splat_from_pair, projection.means2d, projection.conic_opacity
    kernel = raster.backend.kernel("last_pair", "last_pair")
    kernel((raster.cameras.extent.tiles,), (TILE * TILE,), raster.cameras.array, state.array, *lists, last)
    return last


def _tile_arrays(raster: Rasterizer, state: IterState, last: DeviceArray, rows: DeviceArray) -> tuple[DeviceArray, ...]:
    tiles, projection, rendered = raster.tiles, raster.projection, raster.rendered
    return (
        raster.cameras.array,
        state.array,
        tiles.tile_begins,
        tiles.splat_from_pair,
        projection.means2d,
        projection.conic_opacity,
        projection.colors,
        rendered.final_T,
        last,
        rendered.d_image,
        rows,
    )


def _block_a_tile(file: str, *leading: None) -> Launch:
    def launch(raster: Rasterizer, state: IterState, last: DeviceArray, rows: DeviceArray) -> None:
        kernel = raster.backend.kernel(file, file)
        kernel((raster.cameras.extent.tiles,), (TILE * TILE,), *leading, *_tile_arrays(raster, state, last, rows))

    return launch


def _queue(longest_first: bool) -> Launch:
    """A separate launch sets the counter to 0. It adds one or two microseconds to the stage's time."""
    counters: dict[Backend, DeviceArray] = {}

    def launch(raster: Rasterizer, state: IterState, last: DeviceArray, rows: DeviceArray) -> None:
        backend, order = raster.backend, raster.tiles.tile_order if longest_first else None
        if backend not in counters:  # before a graph is captured, because captures cannot allocate
            counters[backend] = backend.xp.zeros(1, "uint32")
        backend.fill(counters[backend], 0)
        arrays = _tile_arrays(raster, state, last, rows)
        kernel = backend.kernel("stage3_two_levels", "stage3_two_levels")
        kernel((_resident_blocks(backend),), (TILE * TILE,), counters[backend], order, *arrays)

    return launch


def _resident_blocks(backend: Backend) -> int:
    if backend.name == "cpu":
        return BLOCKS_ON_CPU
    return BLOCKS_PER_SM * int(backend.xp.cuda.Device().attributes["MultiProcessorCount"])


def _ours(matrix_sums: bool = False) -> Launch:
    def launch(raster: Rasterizer, state: IterState, last: DeviceArray, rows: DeviceArray) -> None:
        projection = dataclasses.replace(raster.projection, d_splats=rows)
        blend_backward(raster.cameras, state, projection, raster.tiles, raster.rendered, False, matrix_sums)

    return launch


def _ours_in_wide_rows(raster: Rasterizer, state: IterState, last: DeviceArray, rows: DeviceArray) -> None:
    tiles, projection, rendered = raster.tiles, raster.projection, raster.rendered
    assert rendered.segments is not None
    raster.backend.kernel("raster/blend_backward", "blend_backward", SPLAT_SUMS=WIDE_ROW)(
        (backward_blocks(rendered, raster.cameras),),
        (32, BACKWARD_WARPS),
        raster.cameras.array,
        state.array,
        rendered.segments,
        rendered.max_segments,
        tiles.tile_begins,
        tiles.splat_from_pair,
        projection.means2d,
        projection.conic_opacity,
        projection.colors,
        rendered.image,
        rendered.states,
        rendered.d_image,
        rows,
    )


OURS = Stage("ours: segments, moments", _ours(), "reached_pairs", "hits_8x8", moments=True)
_TWO_LEVELS = _block_a_tile("stage3_two_levels", None, None)
STAGES = (
    Stage("original", _block_a_tile("stage0_original"), "warp_visits", "hits", Source(420, 65, 8.2)),
    Stage("+ shared memory", _block_a_tile("stage1_shared_memory"), "pairs", "hits", Source(580, 72, 6.5)),
    Stage("+ reduced atomics", _block_a_tile("stage2_reduced_atomics"), "pairs", "hits_16x2", Source(610, 78, 5.8)),
    Stage("+ two levels", _TWO_LEVELS, "pairs", "hits_8x4", Source(680, 88, 4.3)),
    Stage("+ work queue", _queue(longest_first=False), "pairs", "hits_8x4", Source(720, 93, 3.7)),
    Stage("work queue, longest first", _queue(longest_first=True), "pairs", "hits_8x4"),
    OURS,
    dataclasses.replace(OURS, name="ours, tensor cores", launch=_ours(matrix_sums=True), cuda_only=True),
    dataclasses.replace(OURS, name="ours, rows of 64 bytes", launch=_ours_in_wide_rows, columns=WIDE_ROW),
)
