"""sort_pairs against NumPy's stable argsort."""

import numpy as np
import pytest

from splat_cli.errors import ShapeError


def sort(backend, keys, values, count, num_bits):
    arrays = [backend.upload(a) for a in (keys, values, np.zeros_like(keys), np.zeros_like(values))]
    backend.sort_pairs(*arrays, backend.upload(np.array([count], np.uint32)), num_bits)
    same_keys, same_values, keys_out, values_out = (backend.download(a) for a in arrays)
    np.testing.assert_array_equal(same_keys, keys)
    np.testing.assert_array_equal(same_values, values)
    return keys_out[:count], values_out[:count]


@pytest.mark.parametrize("num_bits", [0, 1, 7, 8, 13, 24, 32])
@pytest.mark.parametrize(
    ("count", "capacity"), [(0, 1), (1, 1), (1, 100), (257, 1000), (5000, 5000), (200_000, 200_001)]
)
def test_sort_pairs(backend, count, capacity, num_bits):
    rng = np.random.default_rng(count)
    keys = rng.integers(0, 2**32, capacity, dtype=np.uint32) & rng.choice(
        np.array([0xFFFF00FF, 0xFF, 2**32 - 1], np.uint32)
    )
    values = rng.integers(0, 2**32, capacity, dtype=np.uint32)
    got_keys, got_values = sort(backend, keys, values, count, num_bits)
    order = np.argsort(keys[:count] & np.uint32((1 << num_bits) - 1), kind="stable")
    np.testing.assert_array_equal(got_keys, keys[:count][order])
    np.testing.assert_array_equal(got_values, values[:count][order])


def test_equal_keys_keep_their_order(backend):
    keys, values = np.full(100_000, 3, np.uint32), np.arange(100_000, dtype=np.uint32)
    np.testing.assert_array_equal(sort(backend, keys, values, 100_000, 32)[1], values)


def test_wrong_arguments(backend):
    array, count = backend.upload(np.zeros(4, np.uint32)), backend.upload(np.zeros(1, np.uint32))
    with pytest.raises(ShapeError, match="values must be uint32"):
        backend.sort_pairs(array, backend.upload(np.zeros(4, np.int32)), array, array, count, 8)
    with pytest.raises(ShapeError, match="keys_out .* capacity = 4"):
        backend.sort_pairs(array, array, backend.upload(np.zeros(5, np.uint32)), array, count, 8)
    with pytest.raises(ShapeError, match="num_bits must be 0 to 32, got 33"):
        backend.sort_pairs(array, array, array, array, count, 33)
