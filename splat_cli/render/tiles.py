"""Which splats each tile blends, in depth order: sort, emit pairs, sort by tile, ranges."""

from __future__ import annotations

from typing import Any

from splat_cli.device import Backend
from splat_cli.device.sort import make_sorter
from splat_cli.render.camera import CameraTable
from splat_cli.render.project import Projection
from splat_cli.render.step import StepState

SCAN_BLOCK = 1024  # splats a block of sum_tiles owns, as in cuda_src/emit_tiles.cu
SCAN_THREADS = 64
THREADS = 256


class TileLists:
    """Lists of pairs for up to `capacity` splats, `pair_capacity` pairs and `max_tiles` tiles.

    After `build`: tile_begins uint32 [max_tiles + 1], splat_from_pair uint32 [pair_capacity], order uint32 [capacity].
    Too many pairs set the state's `halted` and leave `needed_pairs` there.
    """

    def __init__(self, backend: Backend, capacity: int, pair_capacity: int, max_tiles: int) -> None:
        empty = backend.xp.empty
        self.backend, self.capacity, self.pair_capacity, self.max_tiles = backend, capacity, pair_capacity, max_tiles
        self.sorted_keys, self.order = empty(capacity, "uint32"), empty(capacity, "uint32")
        self.sums, self.offsets = empty(-(-capacity // SCAN_BLOCK), "uint32"), empty(capacity, "uint32")
        self.tile_keys, self.sorted_tile_keys = empty(pair_capacity, "uint32"), empty(pair_capacity, "uint32")
        self.unsorted_splats, self.splat_from_pair = empty(pair_capacity, "uint32"), empty(pair_capacity, "uint32")
        self.tile_begins = empty(max_tiles + 1, "uint32")
        self.sort_splats = make_sorter(backend, capacity)
        self.sort_pairs = make_sorter(backend, pair_capacity)

    def build(self, cameras: CameraTable, state: StepState, projection: Projection) -> None:
        """Fill the lists for the state's view."""
        self.sort_splats(
            projection.depth_keys, projection.ids, self.sorted_keys, self.order, state.counter("num_splats"), 32
        )
        self._emit(cameras, state, projection)
        num_bits = max(self.max_tiles - 1, 1).bit_length()
        self.sort_pairs(
            self.tile_keys, self.unsorted_splats, self.sorted_tile_keys, self.splat_from_pair,
            state.counter("num_pairs"), num_bits,
        )  # fmt: skip
        grid = (self.pair_capacity // THREADS + 1,)
        self.backend.kernel("tile_ranges", "tile_ranges")(
            grid, (THREADS,), cameras.array, state.array, self.sorted_tile_keys, self.tile_begins
        )

    def _emit(self, cameras: CameraTable, state: StepState, projection: Projection) -> None:
        counts, blocks = projection.num_tiles, (len(self.sums),)
        kernel = self.backend.kernel
        kernel("emit_tiles", "sum_tiles")(blocks, (SCAN_THREADS,), state.array, self.order, counts, self.sums)
        kernel("emit_tiles", "scan_sums")((1,), (THREADS,), state.array, self.sums, self.pair_capacity)
        kernel("emit_tiles", "scan_tiles")(
            blocks, (SCAN_THREADS,), state.array, self.order, counts, self.sums, self.offsets
        )
        kernel("emit_tiles", "emit_tiles")(
            (-(-self.capacity // THREADS),), (THREADS,),
            cameras.array, state.array, self.order, counts, self.offsets, projection.means2d,
            projection.conic_opacity, self.tile_keys, self.unsorted_splats,
        )  # fmt: skip
