"""Lane kernels agree with NumPy on each backend and for each SIMD width."""

from pathlib import Path

import numpy as np
import pytest

from splat_cli.device.compilation.host_compiler import find_compiler
from splat_cli.device.cpu import CpuBackend

KERNELS = Path(__file__).parent / "kernels"
LEVELS = {"x86-64-v2": "sse4_2", "x86-64-v3": "avx2"}


def processor_flags():
    path = Path("/proc/cpuinfo")
    return set(path.read_text().split()) if path.exists() else set()


@pytest.fixture(scope="module", params=["cpu", *LEVELS, pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request, open_device):
    """Each device of this machine; the CPU also at lower x86-64 levels than its own, which may be v4."""
    if request.param not in LEVELS:
        return open_device(request.param, KERNELS)
    if LEVELS[request.param] not in processor_flags():
        pytest.skip(f"this processor is not {request.param}")
    sanitize = request.config.getoption("--sanitize")
    level = request.param.replace("-", "_") if find_compiler().linker else request.param  # zig's spelling
    return CpuBackend(sanitize=sanitize, sources=KERNELS, flags=(f"-march={level}",))


def launch(device, name, grid, block, *args, file="lanes"):
    """Run kernel `name` on copies of the arrays in `args`; returns the copies as NumPy arrays, in order."""
    sent = [device.upload(a) if isinstance(a, np.ndarray) else a for a in args]
    device.kernel(file, name)(grid, block, *sent)
    return [device.download(a) for a in sent if isinstance(a, device.xp.ndarray)]


def test_float_operators(device):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 32)).astype(np.float32)
    x[:4], y[:4] = [0.5, -1, 3, 0.25], [0.5, 0.5, -2, 0]
    a, b = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(divide="ignore"):
        expected = [
            a + b, a - b, a * b, a / b, -a, 1 + a, 1 - a, 2 * a, 1 / a, (a + b - 0.5) * b / 2, np.minimum(a, b),
            np.maximum(a, 0.25), abs(a), np.sqrt(abs(a)), 1 / a, np.exp2(a), np.exp(a), np.where(a < b, a, b),
            np.where((a <= b) | (a > 1), 1, 0), np.where((a >= b) & (b != 0.5), a, 0),
            np.where((a != b) ^ (b > 0), b, a), np.trunc(a * 10), a + 1, a,
            np.exp2(a), np.log2(abs(a)),
        ]  # fmt: skip
    *_, out = launch(device, "float_operators", (1,), (32,), x, y, np.zeros((26, 32), np.float32))
    np.testing.assert_allclose(out, expected, rtol=3e-6, atol=1e-6)


def test_int_operators(device):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-50, 50, 32).astype(np.int32), rng.integers(1, 9, 32).astype(np.int32)
    quotient = np.trunc(a / b).astype(np.int32)
    expected = [
        a + b, a - b, a * b, quotient, a - quotient * b, -a, ~a, a & b, a | b, a ^ b, a << 2, a >> 1, 7 - a,
        (a + b - 3) * 2, np.minimum(a, b), np.maximum(a, 5), np.where(a < b, a, b), (a == b) | (a >= 4),
        np.where((a != 3) & (a <= b), a, -1), np.arange(32),
    ]  # fmt: skip
    *_, out = launch(device, "int_operators", (1,), (32,), a, b, np.zeros((20, 32), np.int32))
    np.testing.assert_array_equal(out, expected)


def test_exponentials(device):
    edges = [-np.inf, -200, -127, -126, -1, -0.5, 0, 0.5, 1, 20, 126, 127, 128, 200, np.inf, np.nan]
    x = np.concatenate([edges, np.linspace(-30, 30, 16)]).astype(np.float32)
    *_, out = launch(device, "float_operators", (1,), (32,), x, x, np.zeros((26, 32), np.float32))
    with np.errstate(over="ignore", under="ignore"):
        expected = np.exp2(x.astype(np.float64)).astype(np.float32)
    finite = np.isfinite(expected) & (expected > 2e-38)
    np.testing.assert_allclose(out[15][finite], expected[finite], rtol=3e-7)
    assert np.isnan(out[15][np.isnan(x)]).all()
    assert (out[15][x >= 128] == np.inf).all()
    assert (out[15][x <= -127] <= 2e-38).all()
    assert out[15][x == 0] == 1
    bounded = (x >= -126) & (x <= 127)
    np.testing.assert_array_equal(out[24][bounded], out[15][bounded])


@pytest.mark.parametrize("threshold", [-1.0, 0.5, 0.99, 2.0])
def test_votes(device, threshold):
    x = np.linspace(0, 1, 32, dtype=np.float32)
    m = x > threshold
    bits = sum(1 << int(i) for i in np.flatnonzero(m))
    _, out = launch(device, "lane_votes", (1,), (32,), x, threshold, np.full(6, -1, np.int32))
    np.testing.assert_array_equal(out[:4], [m.any(), m.all(), np.uint32(bits).view(np.int32), 1])
    assert out[4] == (1 if m[0] else -1)


def test_memory(device):
    rng = np.random.default_rng(0)
    n, size = 32 * 4 * 3, 500
    x, y = rng.random(size, np.float32), rng.integers(-9, 9, size).astype(np.int32)
    z, q = rng.integers(0, 255, size).astype(np.uint8), rng.random((size, 4), np.float32)
    index = rng.permutation(size)[:n].astype(np.int32)
    index[rng.random(n) < 0.3] = -1
    empty = [np.zeros(size, t) for t in (np.float32, np.int32, np.uint8, np.float32)]
    *_, fx, iy, bz, sum4 = launch(device, "lane_memory", (3,), (32, 4), x, y, z, q, index, *empty)
    hit = np.zeros(size, bool)
    hit[index[index >= 0]] = True
    np.testing.assert_array_equal(fx, np.where(hit, x, 0))
    np.testing.assert_array_equal(iy, np.where(hit, y, 0))
    np.testing.assert_array_equal(bz, np.where(hit, z, 0))
    np.testing.assert_allclose(sum4, np.where(hit, q @ [1, 10, 100, 1000], 0), rtol=1e-6)


@pytest.mark.parametrize("offset", range(1, 4))
def test_bytes_at_any_address(device, offset):
    z = np.random.default_rng(0).integers(0, 256, 32 + offset).astype(np.uint8)
    arrays = [np.zeros(shape, t) for shape, t in ((32, np.float32), (32, np.int32), ((32, 4), np.float32))]
    x, y, q, index, read = map(device.upload, (*arrays, np.arange(32, dtype=np.int32), np.zeros(32, np.uint8)))
    fx, iy, sum4 = map(device.upload, (arrays[0], arrays[1], arrays[0]))
    device.kernel("lanes", "lane_memory")((1,), (32, 1), x, y, device.upload(z)[offset:], q, index, fx, iy, read, sum4)
    np.testing.assert_array_equal(device.download(read), z[offset:])


@pytest.mark.parametrize("n", [1, 31, 32, 33, 250, 256])
def test_rows(device, n):
    rng = np.random.default_rng(0)
    x, y = rng.random(n, np.float32), rng.integers(0, 2**32, n, dtype=np.uint32)
    z, q = rng.integers(0, 255, n).astype(np.uint8), rng.random((n, 4), np.float32)
    empty = [np.zeros(n, t) for t in (np.float32, np.uint32, np.uint8, np.float32)]
    *_, fx, iy, bz, sum4 = launch(device, "lane_rows", (4,), (32, 2), x, y, z, q, n, *empty)
    np.testing.assert_array_equal(fx, x)
    np.testing.assert_array_equal(iy, y)
    np.testing.assert_array_equal(bz, z)
    np.testing.assert_allclose(sum4, q @ [1, 10, 100, 1000], rtol=1e-6)


@pytest.mark.parametrize("num", [1, 2, 3, 9, 11, 17, 32])
def test_sums(device, num):
    x = np.random.default_rng(0).uniform(-1, 1, (70, 4, 32)).astype(np.float32)
    start = np.arange(num, dtype=np.float32)
    _, sums, blocks = launch(device, "lane_sums", (70,), (32, 4), x, start, np.zeros(70, np.float32), num, file="sums")
    powers = [(x.astype(np.float64) ** (k + 1)).sum() for k in range(num)]
    np.testing.assert_allclose(sums, start + powers, rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(blocks, x.sum((1, 2), dtype=np.float64), rtol=1e-5, atol=1e-5)


def test_shape_of_a_block(device):
    (out,) = launch(device, "lane_shape", (5,), (32, 3, 2), np.zeros((5, 2, 3, 3), np.int32))
    z, y = np.meshgrid(range(2), range(3), indexing="ij")
    np.testing.assert_array_equal(out, np.broadcast_to(np.stack([np.full((2, 3), 32), y, z], -1), out.shape))


def test_functions_by_their_cuda_names(device):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 32)).astype(np.float32)
    x[:3], y[:3] = [np.nan, 1, -0.5], [2, np.nan, 3]
    a, b = x.astype(np.float64), y.astype(np.float64)
    *_, out = launch(device, "cuda_functions", (1,), (32,), x, y, np.zeros((15, 32), np.float32))
    expected = [
        np.exp(a), np.log(abs(a)), np.sqrt(abs(a)), 1 / np.sqrt(abs(a)), np.floor(a), np.ceil(a), np.fmin(a, b),
        np.fmax(a, b), a + b, a - b, a * b, a * b + 1, a / b, np.sqrt(abs(a)), np.where(np.arange(32) % 3 == 0, a, b),
    ]  # fmt: skip
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-7)


def test_own_elements(device):
    rng = np.random.default_rng(0)
    x, pairs, rows = rng.normal(size=32), rng.random((32, 2)), rng.random((32, 3, 4))
    x, pairs, rows = x.astype(np.float32), pairs.astype(np.float32), rows.astype(np.float32)
    empty = [np.zeros(shape, np.float32) for shape in ((32, 2), (32, 4), (32, 3, 4))]
    *_, out_pairs, out_quads, out_rows = launch(device, "own_elements", (1,), (32,), x, pairs, rows, *empty)
    m = (x > 0)[:, None]
    np.testing.assert_array_equal(out_pairs, np.where(m, pairs[:, ::-1], 0))
    np.testing.assert_array_equal(out_quads, np.where(m, rows[:, 0], 0)[::-1])
    np.testing.assert_array_equal(out_rows, np.where(m[..., None], rows, 0))


def test_counters(device):
    rng = np.random.default_rng(0)
    n = 32 * 100
    x, bins = rng.normal(size=n).astype(np.float32), rng.integers(0, 50, n).astype(np.int32)
    empty = np.zeros(2, np.uint32), np.full(n, 2**32 - 1, np.uint32), np.zeros(50, np.uint32), np.zeros(n, np.uint64)
    *_, count, places, sums, pairs = launch(device, "counters", (100,), (32,), x, bins, *empty)
    hit = x > 0
    assert count.tolist() == [hit.sum()] * 2
    assert sorted(places[hit]) == list(range(hit.sum()))
    assert (places[~hit] == 2**32 - 1).all()
    np.testing.assert_array_equal(sums, np.bincount(bins[hit], minlength=50))
    np.testing.assert_array_equal(pairs, np.where(hit, 7 << 32 | bins.astype(np.uint64), 0))
