"""cuda_src/density/columns.cu against NumPy's indexing."""

import numpy as np
import pytest

from splat_cli.device import launch
from splat_cli.errors import ShapeError
from splat_cli.model.columns import (
    ROWS_AT_ONCE,
    clear_columns,
    copy_columns,
    list_slots,
    mark_nonfinite,
    partition,
    remove_columns,
    reorder_columns,
)

NUM, CAPACITY, ROWS = 700, 1024, 2 * ROWS_AT_ONCE + 1


@pytest.fixture
def planes(backend):
    return backend.upload(np.random.default_rng(0).normal(size=(ROWS, CAPACITY)).astype(np.float32))


def _index(backend, values):
    return backend.upload(np.asarray(values, np.int64))


def test_copies_go_from_source_to_target(backend, planes):
    expected = backend.download(planes)
    source, target = np.array([3, 600, 3]), np.array([10, 11, 900])
    copy_columns(backend, planes, 3, _index(backend, source), target=_index(backend, target))
    expected[:, target] = expected[:, source]
    np.testing.assert_array_equal(backend.download(planes), expected)


def test_copies_end_at_the_limit(backend, planes):
    expected = backend.download(planes)
    source, target, limit = (_index(backend, values) for values in ([1, 2, 3], [500, 501, 502], [2]))
    copy_columns(backend, planes, 3, source, target=target, limit=limit)
    expected[:, 500:502] = expected[:, 1:3]
    np.testing.assert_array_equal(backend.download(planes), expected)


def test_planes_may_lack_the_columns_of_the_first_splats(backend, planes):
    """`planes` begin with splat 64, `out` with splat 32; splats without a column in both are left alone."""
    before, out = backend.download(planes).copy(), backend.xp.zeros((ROWS, CAPACITY), "float32")
    source, target = (_index(backend, splats) for splats in ([70, 40, 80, 64], [10, 50, 60, 32]))
    copy_columns(backend, planes, 4, source, out, target, missing=(64, 32))
    clear_columns(backend, planes, 2, _index(backend, [30, 69]), missing=64)
    expected = np.zeros((ROWS, CAPACITY), np.float32)
    expected[:, [28, 0]] = before[:, [16, 0]]
    np.testing.assert_array_equal(backend.download(out), expected)
    before[:, 5] = 0
    np.testing.assert_array_equal(backend.download(planes), before)


def test_clearing_by_index_and_in_a_row(backend, planes):
    expected = backend.download(planes)
    clear_columns(backend, planes, 2, _index(backend, [700, 0]))
    clear_columns(backend, planes, 300, first=20)
    expected[:, [700, 0]] = 0
    expected[:, 20:320] = 0
    np.testing.assert_array_equal(backend.download(planes), expected)


def test_partition_keeps_the_order(backend):
    mask = np.random.default_rng(0).random(NUM) < 0.3
    values = np.random.default_rng(1).permutation(NUM)
    chosen, others = map(backend.download, partition(backend, backend.upload(mask)))
    np.testing.assert_array_equal(chosen, np.flatnonzero(mask))
    np.testing.assert_array_equal(others, np.flatnonzero(~mask))
    chosen, others = map(backend.download, partition(backend, backend.upload(mask), _index(backend, values)))
    np.testing.assert_array_equal(chosen, values[mask])
    np.testing.assert_array_equal(others, values[~mask])
    assert [len(part) for part in partition(backend, backend.upload(mask[:0]))] == [0, 0]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_the_last_columns_move_into_the_holes(backend, planes, share):
    before = backend.download(planes)
    mask = np.random.default_rng(0).random(NUM) < share
    kept = remove_columns(backend, [planes], backend.upload(mask))
    after = backend.download(planes)
    assert kept == NUM - mask.sum()
    stayed = np.flatnonzero(~mask[:kept])
    np.testing.assert_array_equal(after[:, stayed], before[:, stayed])
    holes, movers = np.flatnonzero(mask[:kept]), np.flatnonzero(~mask[kept:]) + kept
    np.testing.assert_array_equal(after[:, holes], before[:, movers])


def test_slots_are_holes_and_then_new_columns(backend):
    def slots(holes, first, count):
        return backend.download(list_slots(backend, holes, first, count)).tolist()

    assert slots(_index(backend, [7, 3]), 100, 4) == [7, 3, 100, 101]
    assert slots(None, 100, 2) == [100, 101]
    assert slots(_index(backend, []), 100, 2) == [100, 101]
    assert slots(None, 100, 0) == []


def test_planes_are_checked(backend, planes):
    wrong = backend.upload(np.zeros((ROWS + 1, 4), np.float32))
    with pytest.raises(ShapeError, match="copy_columns: out"):
        copy_columns(backend, planes, 1, out=wrong)


def test_removal_from_an_empty_model(backend, planes):
    assert remove_columns(backend, [planes], backend.upload(np.zeros(0, bool))) == 0
    assert len(mark_nonfinite(backend, planes, 0)) == 0


def test_nonfinite_numbers_are_marked(backend, planes):
    host = backend.download(planes)
    host[0, 3], host[4, 4], host[2, 5], host[1, NUM] = np.nan, np.inf, -np.inf, np.nan
    host[:, 6] = 3e38  # their sum overflows
    mask = mark_nonfinite(backend, backend.upload(host), NUM)
    assert np.flatnonzero(backend.download(mask)).tolist() == [3, 4, 5]


def test_columns_are_reordered(backend, planes):
    before, order = backend.download(planes), np.random.default_rng(2).permutation(NUM)
    reorder_columns(backend, planes, _index(backend, order))
    after = backend.download(planes)
    np.testing.assert_array_equal(after[:, :NUM], before[:, order])
    np.testing.assert_array_equal(after[:, NUM:], before[:, NUM:])


def test_marks_end_with_the_splats(backend, planes):
    """The mask has another element here, which stays."""
    mask = backend.upload(np.ones(NUM + 1, bool))
    launch(backend, "density/columns", "mark_nonfinite", NUM, planes, ROWS, CAPACITY, NUM, mask)
    assert np.flatnonzero(backend.download(mask)).tolist() == [NUM]
