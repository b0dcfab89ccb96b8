"""SPZ: its versions, and files of it that lack something."""

import contextlib
import gzip
import itertools
import struct

import numpy as np
import pytest
import zstandard

from splat_cli.errors import FormatError
from splat_cli.gaussians.formats import read_splats, write_splats
from tests.gaussians.formats.refused import assert_one_line
from tests.gaussians.some_splats import some_splats


def rewrite_spz(path, change):
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()))))


@pytest.mark.parametrize(
    ("offset", "layout", "value", "message"),
    [
        (0, "<I", 7, "header"),
        (4, "<I", 5, "version 5"),
        (8, "<I", 4_000_000_000, "too many"),
        (8, "<I", 21, "promises"),
        (12, "<B", 4, "degree 4"),
        (13, "<B", 24, "24 bits"),
        (14, "<B", 2, "flags 2"),
    ],
)
def test_spz_headers(tmp_path, offset, layout, value, message):
    def change(content):
        content = bytearray(content)
        struct.pack_into(layout, content, offset, value)
        return bytes(content)

    write_splats(tmp_path / "a.spz", some_splats(20, 1))
    rewrite_spz(tmp_path / "a.spz", change)
    with pytest.raises(FormatError, match=message):
        read_splats(tmp_path / "a.spz")


def as_version_4(path):
    """Rewrites an .spz file of version 3: a table of sizes, and a zstd stream for each property."""
    content = gzip.decompress(path.read_bytes())
    magic, _, n, degree, bits, flags, _ = struct.unpack_from("<4sIIBBBB", content)
    widths = [width for width in (9, 1, 3, 3, 4, 3 * ((degree + 1) ** 2 - 1)) if width]
    places = np.cumsum([16, *(n * width for width in widths)])
    parts = [content[begin:end] for begin, end in itertools.pairwise(places)]
    streams = [zstandard.ZstdCompressor().compress(part) for part in parts]
    table = b"".join(struct.pack("<QQ", len(s), len(p)) for s, p in zip(streams, parts, strict=True))
    header = struct.pack("<4sIIBBBBI12x", magic, 4, n, degree, bits, flags, len(parts), 32)
    path.write_bytes(header + table + b"".join(streams))


@pytest.mark.parametrize("degree", [0, 2])
def test_spz_of_version_4_is_the_same_in_other_streams(tmp_path, degree):
    write_splats(tmp_path / "a.spz", some_splats(50, degree))
    before = read_splats(tmp_path / "a.spz")
    as_version_4(tmp_path / "a.spz")
    after = read_splats(tmp_path / "a.spz")
    for name, array in before.arrays().items():
        np.testing.assert_array_equal(getattr(after, name), array)


def test_damaged_spz_of_version_4(tmp_path):
    path = tmp_path / "a.spz"
    write_splats(path, some_splats(20, 1))
    as_version_4(path)
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    for length in (5, 20, 33, 60, 140, len(whole) - 3):
        path.write_bytes(whole[:length].tobytes())
        assert_one_line(path)
    for offset, value in ((8, 21), (8, 4_000_000_000), (12, 4), (14, 2), (16, 1 << 30), (40, 1 << 30)):
        content = bytearray(whole.tobytes())
        struct.pack_into("<I" if offset not in (12, 14) else "<B", content, offset, value)
        path.write_bytes(content)
        assert_one_line(path)
    rng = np.random.default_rng(3)
    for _ in range(200):
        damaged = whole.copy()
        damaged[rng.integers(len(whole), size=2)] ^= np.uint8(1 << rng.integers(8))
        path.write_bytes(damaged.tobytes())
        with contextlib.suppress(FormatError):
            read_splats(path)


def test_spz_of_version_2(tmp_path):
    """Version 3 has four bytes for a quaternion, version 2 three, which are x, y and z."""
    path = tmp_path / "a.spz"
    write_splats(path, some_splats(1, 0))
    rewrite_spz(path, lambda c: c[:4] + struct.pack("<I", 2) + c[8:-4] + bytes([255, 128, 128]))
    np.testing.assert_allclose(np.abs(read_splats(path).quats[0]), [0, 1, 0, 0], atol=0.01)
