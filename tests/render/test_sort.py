"""Tiles' lists are sorted, whatever their lengths: within a warp's reach, a block's, a chunk's, and beyond."""

import itertools

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.render.camera import TILE, CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.tiles import SORT_THREADS, TileLists
from tests.views import unplaced_view

LENGTHS = [0, 1, 2, 3, 63, 64, 65, 127, 128, 129, 324, 512, 513, 1024, 2600, 4095, 4096, 4097, 9000, 12289, 16384]


@pytest.mark.parametrize("threads", [None, 64])
def test_every_list_is_sorted_by_depth_and_splat(backend: Backend, threads: int | None) -> None:
    rng = np.random.default_rng(0)
    begins = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.uint32)
    num_pairs = int(begins[-1])
    depths, splats = rng.integers(1, 50, num_pairs, np.uint64), rng.permutation(num_pairs).astype(np.uint64)
    keys = depths << np.uint64(32) | splats  # many splats of one depth
    view = unplaced_view(TILE * len(LENGTHS), TILE)
    cameras, state = CameraTable(backend, [view]), IterState(backend, num_splats=num_pairs)
    lists = TileLists(backend, num_pairs, len(LENGTHS))
    lists.tile_begins[...], lists.keys[...] = backend.upload(begins), backend.upload(keys)
    lists.tile_order[...] = backend.upload(np.arange(len(LENGTHS), dtype=np.uint32)[::-1].copy())
    backend.kernel("raster/sort_tiles", "sort_tiles")(
        (len(LENGTHS),), (threads or SORT_THREADS[backend.name],),
        cameras.array, state.array, lists.tile_order, lists.tile_begins, lists.keys, lists.splat_from_pair,
    )  # fmt: skip
    found = backend.download(lists.splat_from_pair)
    for begin, end in itertools.pairwise(begins):
        np.testing.assert_array_equal(found[begin:end], np.sort(keys[begin:end]) & np.uint64(0xFFFFFFFF))
