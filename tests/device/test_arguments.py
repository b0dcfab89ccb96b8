"""Wrong arguments of a kernel raise errors that name them."""

import numpy as np
import pytest

from splat_cli.device import check_arrays
from splat_cli.device.arguments import parse_kernels
from splat_cli.errors import DeviceError, ShapeError

F4 = np.float32


def test_sizes_by_name():
    sizes = check_arrays("k", a=(np.zeros((5, 3), F4), F4, "N 3"), b=(np.zeros((2, 5), F4), F4, "K N"))
    assert sizes == {"N": 5, "3": 3, "K": 2} or sizes == {"N": 5, "K": 2}


@pytest.mark.parametrize(
    ("array", "dimensions", "message"),
    [
        (np.zeros((5, 4), F4), "N 3", r"k: a must be float32 \[N, 3\], got float32 \[5, 4\]"),
        (np.zeros(5, F4), "N 3", r"got float32 \[5\]"),
        (np.zeros((5, 3)), "N 3", r"got float64 \[5, 3\]"),
        (np.zeros((3, 5), F4).T, "N 3", "not C-contiguous"),
        ([1.0, 2.0], "N", "must be an array float32 .*, got list"),
        (np.zeros((6, 3), F4), "N 3", r"with N = 5 as in first, got float32 \[6, 3\]"),
    ],
)
def test_arrays_that_do_not_fit(array, dimensions, message):
    with pytest.raises(ShapeError, match=message):
        check_arrays("k", first=(np.zeros(5, F4), F4, "N"), a=(array, F4, dimensions))


def by_value(backend, **changes):
    """Launch the kernel by_value with some changed arguments."""
    struct = np.zeros((), [("scale", "f4"), ("offset", "i4"), ("data", "u8")])
    array = backend.upload(np.zeros(64, F4))
    struct["data"] = backend.address(array)
    args = {"x": array, "settings": struct, "n": 64, "y": backend.upload(np.zeros(64, F4))} | changes
    backend.kernel("plain", "by_value")((1,), (64,), *args.values())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n", 1.0, r"by_value: n \(int\) must be a int32 scalar, got float: 1.0"),
        ("n", np.int64(1), "got int64"),
        ("n", np.uint32(1), "got uint32"),
        ("n", True, "got bool"),
        ("n", 2**31, "cannot hold 2147483648"),
        ("n", None, "got NoneType"),
        ("settings", 1, "is a struct: pass a NumPy structured scalar, got int"),
        ("x", 1, r"x \(float \*\) must be a .*ndarray or None, got builtins.int"),
        ("x", [1.0], "got builtins.list"),
    ],
)
def test_wrong_argument(small_kernels, name, value, message):
    by_value(small_kernels)
    with pytest.raises(ShapeError, match=message):
        by_value(small_kernels, **{name: value})


def test_wrong_arrays(small_kernels):
    upload = small_kernels.upload
    with pytest.raises(ShapeError, match=r"x \(float \*\) must hold float32, got int32 \[64\]"):
        by_value(small_kernels, x=upload(np.zeros(64, np.int32)))
    with pytest.raises(ShapeError, match="x .* must be C-contiguous"):
        by_value(small_kernels, x=upload(np.zeros(128, F4))[::2])
    if small_kernels.name == "cuda":
        with pytest.raises(ShapeError, match=r"must be a cupy.ndarray or None, got numpy.ndarray; see backend.upload"):
            by_value(small_kernels, x=np.zeros(64, F4))


def test_struct_of_another_size(small_kernels):
    if small_kernels.name != "cpu":
        pytest.skip("CUDA does not tell the size of a struct")
    with pytest.raises(ShapeError, match=r"settings \(Settings\) is a struct of 16 bytes, got 12"):
        by_value(small_kernels, settings=np.zeros((), [("a", "f4", 3)]))


def test_number_of_arguments(small_kernels):
    kernel = small_kernels.kernel("plain", "write_at")
    with pytest.raises(ShapeError, match=r"write_at: expected 2 arguments \(x, offset\), got 1"):
        kernel((1,), (1,), None)


@pytest.mark.parametrize(
    ("grid", "block"),
    [((0,), (1,)), ((1,), (1, -1)), ((), (1,)), ((1, 1, 1, 1), (1,)), ((1,), (33, 32)), ((1, 65536), (1,))],
)
def test_launch_shape(small_kernels, grid, block):
    with pytest.raises(ShapeError, match="write_at: a? ?(grid|block)"):
        small_kernels.kernel("plain", "write_at")(grid, block, None, 0)


def test_unknown_kernels(small_kernels):
    with pytest.raises(DeviceError, match=r"plain.cu has no kernel nothing; it has by_value, "):
        small_kernels.kernel("plain", "nothing")
    with pytest.raises(DeviceError, match=r"no kernel file .*missing.cu"):
        small_kernels.kernel("missing", "nothing")


def test_signatures():
    kernels = parse_kernels("""
        // extern "C" __global__ void not_this(int a)
        extern "C" __global__ void __launch_bounds__(256, 2)
        a(const float4* __restrict__ x, /* [N] (a, b) */ unsigned n,   // a comment, with a comma
          unsigned long long const q, const Camera *cameras, float* const y, Camera c, void* any)
        { }
        template <int N> __global__ void no_kernel(int b) {}
        extern "C" __global__ __launch_bounds__(32) void b() {}
    """)
    assert list(kernels) == ["a", "b"]
    assert kernels["b"] == ()
    seen = [(p.name, p.is_pointer, p.dtype and p.dtype.name) for p in kernels["a"]]
    assert seen == [
        ("x", True, "float32"),
        ("n", False, "uint32"),
        ("q", False, "uint64"),
        ("cameras", True, None),
        ("y", True, "float32"),
        ("c", False, None),
        ("any", True, None),
    ]
