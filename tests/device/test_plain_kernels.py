"""CUDA features of plain kernels, on each backend: threads, barriers, warps, atomics, mathematics, arguments."""

import numpy as np
import pytest


def launch(backend, name, grid, block, *args):
    """Run kernel `name` on copies of the arrays in `args`; returns the copies as NumPy arrays, in order."""
    sent = [backend.upload(a) if isinstance(a, np.ndarray) and a.ndim else a for a in args]
    backend.kernel("plain", name)(grid, block, *sent)
    return [backend.download(a) for a in sent if isinstance(a, backend.xp.ndarray) and a.ndim]


def test_struct_by_value(small_kernels):
    data = small_kernels.upload(np.array([5.0, 7.0], np.float32))
    settings = np.zeros((), [("scale", "f4"), ("offset", "i4"), ("data", "u8")])
    settings["scale"], settings["offset"], settings["data"] = 3.0, 1, small_kernels.address(data)
    x = np.arange(100, dtype=np.float32)
    for value in (settings, settings[()]):
        _, y = launch(small_kernels, "by_value", (2,), (64,), x, value, 100, np.zeros_like(x))
        np.testing.assert_array_equal(y, 3 * x + 7)


def test_scalars(small_kernels):
    args = (-3, 7, 1.5, 2.25, np.uint64(2**40 + 1), np.uint8(200), None)
    (out,) = launch(small_kernels, "scalars", (1,), (1,), *args, np.zeros(7))
    np.testing.assert_array_equal(out, [-3, 7, 1.5, 2.25, 2**40 + 1, 200, 1])


@pytest.mark.parametrize("grid", [(5,), (5, 2), (3, 2, 4)])
@pytest.mark.parametrize("block", [(7,), (8, 3), (4, 3, 2), (1024,)])
def test_indices(small_kernels, grid, block):
    blocks, threads = np.prod(grid), np.prod(block)
    (out,) = launch(small_kernels, "indices", grid, block, np.full((blocks, threads, 2), -1, np.int32))
    np.testing.assert_array_equal(out[..., 0], np.broadcast_to(np.arange(blocks)[:, None], (blocks, threads)))
    np.testing.assert_array_equal(out[..., 1], np.broadcast_to(np.arange(threads), (blocks, threads)))


@pytest.mark.parametrize(("blocks", "rounds"), [(1, 1), (3, 7), (300, 3)])
def test_shared_memory_and_barriers(small_kernels, blocks, rounds):
    x = np.arange(blocks * 128, dtype=np.int32).reshape(blocks, 128)
    (out,) = launch(small_kernels, "reverse", (blocks,), (128,), x, rounds)
    np.testing.assert_array_equal(out, x[:, ::-1] if rounds % 2 else x)


@pytest.mark.parametrize("n", [100, 77, 1])
def test_block_votes_after_some_threads_returned(small_kernels, n):
    x = np.arange(100, dtype=np.int32) % 3
    _, out = launch(small_kernels, "votes", (1,), (100,), x, n, np.full((100, 3), -1, np.int32))
    expected = [np.count_nonzero(x[:n]), (x[:n] > 1).any(), (x[:n] < 2).all()]
    np.testing.assert_array_equal(out[:n], np.broadcast_to(expected, (n, 3)))


def test_warp_operations(small_kernels):
    x = np.random.default_rng(0).integers(0, 100, (3, 32)).astype(np.int32)
    _, out = launch(small_kernels, "warp_operations", (1,), (96,), x, np.zeros((3, 32, 7), np.int32))
    lane = np.arange(32)
    ballot = ((x & 1).astype(np.uint64) << lane.astype(np.uint64)).sum(1).astype(np.uint32).view(np.int32)
    down = np.where(lane % 8 + 3 < 8, lane + 3, lane)
    each = [x.sum(1), ballot, (x > 90).any(1), (x < 90).all(1), x[:, 5]]
    expected = np.stack([x.cumsum(1), *(np.repeat(e[:, None], 32, 1) for e in each), x[:, down]], -1)
    np.testing.assert_array_equal(out, expected)


def test_half_a_warp(small_kernels):
    (out,) = launch(small_kernels, "half_warp", (1,), (32,), np.zeros(32, np.int32))
    np.testing.assert_array_equal(out, [*(np.arange(16) ^ 1), *-np.arange(16, 32)])


def test_atomics(small_kernels):
    n = 200 * 64  # enough blocks for several OS threads
    types = ["f4", "f8", "i4", "u4", "i4", "u4", "u8", "u4", "i4"]
    start = [0, 0, 0, 2**32 - 1, -(2**31), 0, 0, 0, 0]
    arrays = [np.array([v], t) for v, t in zip(start, types, strict=True)]
    results = launch(small_kernels, "atomics", (200,), (64,), *arrays)
    expected = [n, n / 2, n, 1000, n - 6, 2**32 - 1, n << 33, 7, 2 * n]
    assert [r[0].item() for r in results] == expected


def test_mathematics(small_kernels):
    x = np.float32(0.7)
    f = np.float64(x)
    out, bits = launch(small_kernels, "mathematics", (1,), (1,), x, np.zeros(24, "f4"), np.zeros(8, "i4"))
    poly = (1 * f + 2) * f + 3
    expected = [np.exp(f), np.exp(f), np.exp2(f), np.log(f), np.sqrt(f), f**-0.5, f, 1, 0, 1, f, np.tanh(f), f**3, f, 2,
                f / 3, f, f * f + f, poly, f, 2 * f + 1, np.sin(f), np.cos(f), 1]  # fmt: skip
    np.testing.assert_allclose(out, expected, rtol=5e-7)
    np.testing.assert_array_equal(bits, [8, 31, 4, 3, 4, -(2**31), 32, 0])


@pytest.mark.parametrize("x", [np.inf, -np.inf, np.nan])
def test_not_finite(small_kernels, x):
    out, _ = launch(small_kernels, "mathematics", (1,), (1,), np.float32(x), np.zeros(24, "f4"), np.zeros(8, "i4"))
    assert out[23] == 0
    assert out[6] == (1 if np.isnan(x) else min(x, 1))  # fminf and fmaxf ignore NaN
    assert out[7] == (1 if np.isnan(x) else max(x, 1))
    assert out[16] == (1 if x == np.inf else 0)


def test_rn_intrinsics_round_each_operation(small_kernels):
    rng = np.random.default_rng(0)
    for a, b, c in rng.random((50, 3), np.float32):
        (out,) = launch(small_kernels, "rounding", (1,), (1,), a, b, c, np.zeros(1, np.float32))
        assert out[0] == a * b - c * c  # float32 arithmetic without fused multiply-add


def test_vector_types(small_kernels):
    rng = np.random.default_rng(0)
    a, b = rng.random((10, 4), np.float32), rng.random((10, 2), np.float32)
    c, d = rng.integers(0, 9, (10, 2)).astype(np.uint32), rng.integers(0, 255, (10, 4)).astype(np.uint8)
    *_, out = launch(small_kernels, "vectors", (1,), (32,), a, b, c, d, np.zeros((10, 4), np.float32), 10)
    np.testing.assert_array_equal(out, a + np.column_stack([b, c[:, 1].astype("f4"), d[:, 3].astype("f4")]))
