"""sort_tiles sorts lists of any length: up to a warp, a block, a chunk, and longer."""

import itertools

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.render.camera import TILE, CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.tiles import TileLists
from tests.views import unplaced_view

AROUND = [power + change for power in (64, 128, 512, 1024, 2048, 4096) for change in (-1, 0, 1)]
LENGTHS = [*range(6), *AROUND, 324, 2600, 9000, 12289, 16384]


@pytest.mark.parametrize(("threads", "defines"), [(1, {"RADIX": 1}), (256, {})])
@pytest.mark.parametrize("num_depths", [2, 50, 1 << 30])
def test_every_list_is_sorted_by_depth_and_splat(
    backend: Backend, threads: int, defines: dict[str, int], num_depths: int
) -> None:
    rng = np.random.default_rng(0)
    begins = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.uint32)
    num_pairs = int(begins[-1])
    depths, splats = rng.integers(1, num_depths, num_pairs, np.uint64), rng.permutation(num_pairs).astype(np.uint64)
    keys = depths << np.uint64(32) | splats
    view = unplaced_view(TILE * len(LENGTHS), TILE)
    cameras, state = CameraTable(backend, [view]), IterState(backend, num_splats=num_pairs)
    lists = TileLists(backend, num_pairs, len(LENGTHS))
    lists.tile_begins[...], lists.keys[...] = backend.upload(begins), backend.upload(keys)
    lists.tile_order[...] = backend.upload(np.arange(len(LENGTHS), dtype=np.uint32)[::-1].copy())
    backend.kernel("raster/sort_tiles", "sort_tiles", **defines)(
        (len(LENGTHS),),
        (threads,),
        cameras.array,
        state.array,
        lists.tile_order,
        lists.tile_begins,
        lists.keys,
        lists.splat_from_pair,
    )
    found = backend.download(lists.splat_from_pair)
    for begin, end in itertools.pairwise(begins):
        np.testing.assert_array_equal(found[begin:end], np.sort(keys[begin:end]) & np.uint64(0xFFFFFFFF))
