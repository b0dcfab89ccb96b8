"""Two ranks exchange visible splats, and send back the sums of their gradients."""

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.ranks.protocol import RANK_BLOCK, Share
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import (
    SPLAT_SUMS,
    ProjectedBatch,
    Projection,
    RasterizationSettings,
    project,
)
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.train.multi_gpu.sharded_views import PROJECTED, Exchange, index_words
from tests.views import ring_of_views

SIZE, NUM = 2, 3 * RANK_BLOCK + 100  # ranks; splats
CAPACITY = NUM + 50
COLUMNS = Share(0, SIZE).columns(CAPACITY)


def _exchange(backend: Backend, rank: int = 0, rows: int = COLUMNS) -> Exchange:
    ranks: Any = SimpleNamespace(rank=rank, size=SIZE)
    return Exchange(backend, ranks, Share(rank, SIZE), CAPACITY, SIZE, rows)


def _rows(backend: Backend, exchange: Exchange, view: int) -> np.ndarray:
    """Row of each splat of a share in the message sent for a view; -1 for invisible splats."""
    words = backend.download(exchange.sent[view, 4 : index_words(COLUMNS)])
    masks, begins = words.view(np.uint32).reshape(-1, 2).astype(np.int64).T
    seen = (masks[:, None] >> np.arange(32) & 1) > 0
    return np.where(seen, begins[:, None] + np.cumsum(seen, axis=1) - 1, -1).ravel()


class _Pair:
    """Two ranks in one process, after sending view 0 to rank 0 and view 1 to rank 1."""

    def __init__(self, backend: Backend, rows: int) -> None:
        rng = np.random.default_rng(0)
        log_scales = rng.uniform(-5, -2, (NUM, 3))
        log_scales[:20] = 1.0  # larger than the picture
        values = {
            "means": rng.normal(0, 4, (NUM, 3)),
            "log_scales": log_scales,
            "quats": rng.normal(size=(NUM, 4)),
            "logit_opacities": rng.normal(-1, 2, NUM),
            "sh0": rng.normal(size=(NUM, 3)),
            "shN": np.zeros((NUM, 0, 3)),
        }
        arrays = SplatArrays(**{name: array.astype(np.float32) for name, array in values.items()})
        self.backend, self.splats = backend, Splats.from_arrays(backend, arrays, CAPACITY)
        own = [arrays.select(np.arange(NUM) // RANK_BLOCK % SIZE == rank) for rank in range(SIZE)]
        self.shares = [Splats.from_arrays(backend, one, COLUMNS) for one in own]
        self.cameras = CameraTable(backend, ring_of_views(SIZE, 200, 150))
        self.states = [IterState(backend, num_splats=NUM) for _ in range(SIZE)]
        self.exchanges = [_exchange(backend, rank, rows) for rank in range(SIZE)]
        for splats, state, exchange in zip(self.shares, self.states, self.exchanges, strict=True):
            for view in range(SIZE):
                state.write(view=view)
                record = backend.kernel("optim/begin_step", "record_view")
                record((1,), (1,), self.cameras.array, state.array, exchange.views[view])
                exchange.project(view, splats, self.cameras, state, False)
        self.transfer("_splats")

    def transfer(self, name: str) -> None:
        """All-to-all of these buffers."""
        for target in range(SIZE):
            for source in {0, 1} - {target}:
                received, sent = getattr(self.exchanges[target], name)[1], getattr(self.exchanges[source], name)[0]
                received[source] = sent[target]

    def rasterizer(self) -> Rasterizer:
        return Rasterizer(self.backend, self.cameras, CAPACITY, RasterizationSettings(training=True))


@pytest.mark.parametrize("rows", [COLUMNS, 1024])
def test_rows_of_visible_splats(backend: Backend, rows: int) -> None:
    """Each visible splat has its own row, rows of a group of 32 are consecutive, and all rows are used."""
    pair = _Pair(backend, rows)
    for view, exchange in itertools.product(range(SIZE), pair.exchanges):
        seen = backend.download(exchange.whole.depths)[view] > 0
        seen[exchange.share.count(NUM) :] = False
        number = backend.download(exchange.sent[view, :1]).view(np.uint32)[0]
        taken = _rows(backend, exchange, view)
        np.testing.assert_array_equal(taken >= 0, seen)
        np.testing.assert_array_equal(np.sort(taken[seen]), np.arange(number))
        assert number > 1024


def test_received_splats_are_those_projected(backend: Backend) -> None:
    pair = _Pair(backend, rows=COLUMNS)
    state, expected, got = pair.states[1], pair.rasterizer(), pair.rasterizer()
    state.write(view=1, num_large=0)
    project(pair.splats, pair.cameras, state, False, expected.projection)
    num_large = int(state.read()["num_large"])
    state.write(num_large=0)
    pair.exchanges[1].receive(0, pair.cameras, state, got.projection)
    assert int(state.read()["num_large"]) == num_large > 0

    depths, depths_got = (backend.download(r.projection.depths)[:NUM] for r in (expected, got))
    np.testing.assert_array_equal(depths_got, depths)
    assert 0.1 * NUM < (depths > 0).sum() < 0.9 * NUM
    for name in ("means2d", "conic_opacity", "colors", "d_splats"):
        arrays = [backend.download(getattr(r.projection, name))[:NUM][depths > 0] for r in (got, expected)]
        np.testing.assert_array_equal(*arrays, err_msg=name)
    counts = [backend.download(r.projection.tile_counts) for r in (got, expected)]
    np.testing.assert_array_equal(*counts)


@pytest.mark.parametrize("rows", [COLUMNS, 1024])
def test_sums_return_to_their_owners(backend: Backend, rows: int) -> None:
    pair, rng = _Pair(backend, rows), np.random.default_rng(1)
    sums = rng.normal(size=(SIZE, CAPACITY, SPLAT_SUMS)).astype(np.float32)
    for rank, (state, exchange) in enumerate(zip(pair.states, pair.exchanges, strict=True)):
        projection = pair.rasterizer().projection
        state.write(view=rank, num_large=0)
        exchange.receive(0, pair.cameras, state, projection)
        projection.d_splats[...] = backend.upload(sums[rank])
        exchange.send(0, state, projection)
        exchange.send_result(0, state)
    pair.transfer("_sums")
    pair.transfer("_results")

    needed = []
    for rank, exchange in enumerate(pair.exchanges):
        columns = np.arange(COLUMNS)
        splats = (columns // RANK_BLOCK * SIZE + rank) * RANK_BLOCK + columns % RANK_BLOCK
        for view in range(SIZE):
            depths = backend.download(exchange.whole.depths)[view]
            own = splats[(splats < NUM) & (depths > 0)]
            needed.append(len(own))
            of_splat = _rows(backend, exchange, view)[depths > 0][: len(own)]
            has_row = of_splat < rows
            got = backend.download(exchange._sums[1])[view][of_splat[has_row]]
            np.testing.assert_array_equal(got, sums[view][own[has_row]])
            assert has_row.sum() == min(len(own), rows)
    for state, exchange in zip(pair.states, pair.exchanges, strict=True):
        exchange.agree(state, SIZE)
        assert exchange.needed_rows == max(needed)
        assert bool(state.read()["overflowed"]) == (max(needed) > rows) == (rows < COLUMNS)


@pytest.mark.parametrize("batch", [2, 4])
def test_memory_cost_is_what_it_allocates(backend: Backend, batch: int) -> None:
    ranks: Any = SimpleNamespace(rank=0, size=SIZE)
    capacity = 20 * SIZE * RANK_BLOCK
    columns = Share(0, SIZE).columns(capacity)
    exchange = Exchange(backend, ranks, Share(0, SIZE), capacity, batch, columns // 2)
    whole = exchange.whole.depths.nbytes + exchange.whole.colors.nbytes
    exchanged = sum(array.nbytes for pair in (exchange._splats, exchange._sums) for array in pair)
    planned = Exchange.memory_cost(batch, SIZE).per_splat * capacity
    assert whole + exchanged == pytest.approx(planned, rel=0.001)
    assert exchange._stride == index_words(columns) + PROJECTED * columns // 2


@pytest.mark.parametrize("name", ["position_gradients", "deterministic"])
def test_memory_cost_of_projections_is_what_they_allocate(backend: Backend, name: str) -> None:
    settings = RasterizationSettings(training=True, **{name: True})
    batch = ProjectedBatch.allocate(backend, CAPACITY, settings)
    (projection,) = batch.projections(backend, 10, settings)
    taken = sum(array.nbytes for array in vars(projection).values() if array is not None)
    cost = Projection.memory_cost(settings)
    assert taken == cost.per_splat * CAPACITY + cost.per_tile * 10
