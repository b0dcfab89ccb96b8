"""Depth-sorted lists of the splats of each tile: host side of cuda_src/raster/tiles.cu and sort_tiles.cu."""

from __future__ import annotations

from splat_cli.device import Backend, DeviceArray, MemoryCost, ceil_div
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import LANES, THREADS, Projection

SCAN_THREADS = {"cuda": 256, "cpu": 16}
# Threads of a block that sorts one list, and defines of the kernel: on the CPU, barriers cost more than comparisons.
SORT_THREADS = {"cuda": 256, "cpu": 1}
SORT_DEFINES: dict[str, dict[str, int]] = {"cuda": {}, "cpu": {"RADIX": 1}}
LARGE_BLOCKS = {"cuda": 1024, "cpu": 16}  # for large splats, whose number the host does not know


class TileLists:
    """Lists of (splat, tile) pairs, for views of up to `max_tiles` tiles and `pair_capacity` pairs.

    After `build`: tile_begins uint32 [max_tiles + 1], tile_order uint32 [max_tiles], splat_from_pair uint32
    [pair_capacity]. If there are more pairs, `overflowed` and `needed_pairs` of the state are set, and the lists must
    be built again. other: lists of the same size that share the buffers that only `build` needs; the two are never
    built at the same time.
    """

    def __init__(self, backend: Backend, pair_capacity: int, max_tiles: int, other: TileLists | None = None) -> None:
        self.backend, self.pair_capacity, self.max_tiles = backend, pair_capacity, max_tiles
        self.keys: DeviceArray = other.keys if other else backend.xp.empty(pair_capacity, "uint64")
        self.splat_from_pair = backend.xp.empty(pair_capacity, "uint32")
        self.tile_begins = backend.xp.empty(max_tiles + 1, "uint32")
        self.tile_order = backend.xp.empty(max_tiles, "uint32")

    @staticmethod
    def memory_cost(count: int = 1, built: int = 1) -> MemoryCost:
        """Device memory of `count` lists, `built` of them at the same time."""
        return MemoryCost(per_pair=8 * built + 4 * count, per_tile=(4 + 4) * count)

    def build(self, cameras: CameraTable, state: IterState, projection: Projection) -> None:
        """Build the lists of the state's view; `project` has counted the pairs in projection.tile_counts."""
        kernel, name, counts = self.backend.kernel, self.backend.name, projection.tile_counts
        capacity, large_blocks = len(projection.depths), LARGE_BLOCKS[name]
        splats = projection.large_splats, projection.depths, projection.means2d, projection.conic_opacity
        common, sorting = (cameras.array, state.array), SORT_DEFINES[name]
        blocks = large_blocks + ceil_div(capacity, THREADS)
        kernel("raster/tiles", "count_large_tiles", **cameras.wrap_defines)(
            (large_blocks,), LANES, *common, capacity, *splats, counts
        )
        kernel("raster/sort_tiles", "scan_tiles", **sorting)(
            (1,), (SCAN_THREADS[name],), *common, counts, self.pair_capacity, self.tile_begins, self.tile_order
        )
        kernel("raster/tiles", "emit_tiles", **cameras.wrap_defines)(
            (blocks,), LANES, *common, capacity, large_blocks, *splats, self.tile_begins, counts, self.keys
        )
        outputs = self.tile_order, self.tile_begins, self.keys, self.splat_from_pair
        kernel("raster/sort_tiles", "sort_tiles", **sorting)(
            (cameras.extent.tiles,), (SORT_THREADS[name],), *common, *outputs
        )
