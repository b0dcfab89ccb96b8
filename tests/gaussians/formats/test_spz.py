"""SPZ: its versions, and files with missing parts."""

import contextlib
import gzip
import itertools
import struct

import numpy as np
import pytest
import zstandard

from splat_cli.errors import FormatError
from splat_cli.gaussians.editing.move import _bands
from splat_cli.gaussians.formats import read_splats, write_splats
from splat_cli.gaussians.formats.spz import AXES, num_cut, read_spz, read_streams, write_spz
from tests.gaussians.formats.differences import differences, shapes
from tests.gaussians.formats.refused import assert_one_line
from tests.gaussians.formats.spz_files import forget_axes, rewrite_spz
from tests.gaussians.some_splats import some_splats


@pytest.mark.parametrize(
    ("offset", "layout", "value", "message"),
    [
        (0, "<I", 7, "header"),
        (4, "<I", 5, "version 5"),
        (8, "<I", 4_000_000_000, "too many"),
        (8, "<I", 21, "declares"),
        (12, "<B", 5, "degree 5"),
        (12, "<B", 4, "declares"),
        (13, "<B", 24, "24 bits"),
        (14, "<B", 128, "flags 128"),
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
    records = content[places[-1] :]
    streams = [zstandard.ZstdCompressor().compress(part) for part in parts]
    table = b"".join(struct.pack("<QQ", len(s), len(p)) for s, p in zip(streams, parts, strict=True))
    header = struct.pack("<4sIIBBBBI12x", magic, 4, n, degree, bits, flags, len(parts), 32 + len(records))
    path.write_bytes(header + records + table + b"".join(streams))


@pytest.mark.parametrize("degree", [0, 2])
def test_spz_of_version_4_is_the_same_in_other_streams(tmp_path, degree):
    write_splats(tmp_path / "a.spz", some_splats(50, degree))
    before = read_splats(tmp_path / "a.spz")
    as_version_4(tmp_path / "a.spz")
    after = read_splats(tmp_path / "a.spz")
    for name, array in before.arrays().items():
        np.testing.assert_array_equal(getattr(after, name), array)


@pytest.mark.parametrize("version", [3, 4])
def test_spz_of_degree_4_is_read_to_degree_3(tmp_path, version):
    """Niantic's library writes degree 4: 24 coefficients per splat, each with red, green and blue."""
    path = tmp_path / "a.spz"
    write_splats(path, some_splats(50))
    expected = read_splats(path)

    def with_fourth_degree(content):
        begin = 16 + 50 * 20
        harmonics = np.frombuffer(content[begin : begin + 50 * 45], np.uint8).reshape(50, 45)
        rows = np.concatenate([harmonics, np.full((50, 27), 200, np.uint8)], axis=1)
        return content[:12] + bytes([4]) + content[13:begin] + rows.tobytes() + content[begin + 50 * 45 :]

    rewrite_spz(path, with_fourth_degree)
    if version == 4:
        as_version_4(path)
    back = read_splats(path)
    for name, array in expected.arrays().items():
        np.testing.assert_array_equal(getattr(back, name), array)
    assert back.dropped_sh_degree == 4


def test_damaged_spz_of_version_4(tmp_path):
    path = tmp_path / "a.spz"
    write_splats(path, some_splats(20, 1))
    as_version_4(path)
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    for length in (5, 20, 33, 60, 140, len(whole) - 3):
        path.write_bytes(whole[:length].tobytes())
        assert_one_line(path)
    for offset, value in ((8, 21), (8, 4_000_000_000), (12, 4), (16, 1 << 30), (36, 5), (40, 17), (52, 1 << 30)):
        content = bytearray(whole.tobytes())
        struct.pack_into("<I" if offset != 12 else "<B", content, offset, value)
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
    """Version 3 has four bytes for a quaternion; version 2 has three: x, y and z."""
    path = tmp_path / "a.spz"
    write_splats(path, some_splats(1, 0))
    records = 12
    rewrite_spz(
        path, lambda c: c[:4] + struct.pack("<I", 2) + c[8 : -4 - records] + bytes([255, 128, 128]) + c[-records:]
    )
    np.testing.assert_allclose(np.abs(read_splats(path).quats[0]), [0, 1, 0, 0], atol=0.01)


def stating(code):
    """Function that rewrites a file with a record that states the axes of a code, after an unknown record."""
    unknown = struct.pack("<II6s", 0x12340001, 6, b"abcdef")
    return lambda content: content[:-12] + unknown + struct.pack("<III", 0xADBE0003, 4, code)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("axes", AXES)
def test_axes_that_a_file_states(tmp_path, version, axes):
    """The matrix of the letters turns positions and shapes; colours in turned directions are unchanged."""
    path = tmp_path / "a.spz"
    splats = some_splats(20, 3)
    write_splats(path, splats)
    stored = read_splats(path)  # below, the same file states other axes
    rewrite_spz(path, stating(AXES.index(axes)))
    if version == 4:
        as_version_4(path)
    back = read_splats(path, "LFD")  # ignored, because the file states its axes
    ply = np.array([[1.0, 0, 0], [0, -1, 0], [0, 0, -1]])  # columns: R, U and B
    columns = {"R": ply[0], "L": -ply[0], "U": ply[1], "D": -ply[1], "B": ply[2], "F": -ply[2]}
    exchanged = {"LFD": "LBU", "RFD": "RBU", "LBU": "LFD", "RBU": "RFD", "": "RUB"}  # as Niantic's library does
    change = np.stack([columns[letter] for letter in exchanged.get(axes, axes)], axis=1) @ ply
    np.testing.assert_allclose(back.means, stored.means @ change.T, atol=1e-5)
    np.testing.assert_allclose(shapes(back), change @ shapes(stored) @ change.T, atol=1e-5)
    direction = np.random.default_rng(1).normal(size=(20, 3))
    expected = sh_colors(stored, direction)
    np.testing.assert_allclose(sh_colors(back, direction @ change.T), expected, atol=1e-4)


def sh_colors(splats, directions):
    """Sum of the coefficients beyond the constant one, each splat in its direction."""
    return np.einsum("nk,nkc->nc", _bands(directions / np.linalg.norm(directions, axis=1, keepdims=True)), splats.shN)


@pytest.mark.parametrize("axes", ["RUB", "RDF"])
def test_written_axes_are_stated(tmp_path, axes):
    splats = some_splats(20, 3)
    write_splats(tmp_path / "a.spz", splats, spz_axes=axes)
    write_splats(tmp_path / "b.spz", splats)
    one, other = read_splats(tmp_path / "a.spz"), read_splats(tmp_path / "b.spz")
    assert max(differences(one, other).values()) < 1 / 64  # 1 and -1 are clipped differently
    raw, stated = unstated(tmp_path / "a.spz")
    assert stated == axes
    sign = 1 if axes == "RDF" else -1
    np.testing.assert_array_equal(np.sign(raw), np.sign(splats.means[0]) * [1, sign, sign])


def unstated(path):
    """(stored position of the first splat, stated axes)."""
    header, streams = read_streams(path)
    numbers = [int.from_bytes(bytes(streams[0][0, 3 * i : 3 * i + 3]), "little", signed=True) for i in range(3)]
    return numbers, header.axes


def test_axes_of_a_file_that_states_none(tmp_path):
    """Programs that do not know the extension write such files; --spz-axes states the axes."""
    path = tmp_path / "a.spz"
    write_splats(path, some_splats(20, 3))
    forget_axes(path)
    np.testing.assert_allclose(read_splats(path).means, read_splats(path, "RDF").means * [1, -1, -1])


@pytest.mark.parametrize("records", [b"abc", struct.pack("<II", 0xADBE0003, 4), struct.pack("<III", 0xADBE0003, 4, 17)])
def test_damaged_extensions(tmp_path, records):
    path = tmp_path / "a.spz"
    write_splats(path, some_splats(20, 0))
    rewrite_spz(path, lambda content: content[:-12] + records)
    with pytest.raises(FormatError, match=r"an extension is truncated|an unknown coordinate system"):
        read_splats(path)


def test_a_byte_that_is_missing_is_noticed(tmp_path):
    write_splats(tmp_path / "a.spz", some_splats(20, 1))
    forget_axes(tmp_path / "a.spz")
    rewrite_spz(tmp_path / "a.spz", lambda content: content[:-1])
    with pytest.raises(FormatError, match="declares"):
        read_splats(tmp_path / "a.spz")


@pytest.mark.parametrize("antialiased", [False, True])
@pytest.mark.parametrize("axes", ["RUB", "RDF"])
def test_a_file_keeps_what_a_splat_means(tmp_path, axes, antialiased):
    """The first band of harmonics is more exact than others."""
    splats = some_splats(200)
    splats.antialiased, splats.shN = antialiased, np.clip(splats.shN / 4, -0.9, 0.9)
    write_spz(tmp_path / "a.spz", splats, axes)
    found = read_spz(tmp_path / "a.spz")
    assert (found.antialiased, found.dropped_sh_degree) == (antialiased, 0)
    steps = 128 * np.abs(found.shN - splats.shN).max(axis=(0, 2))
    assert 0.9 < steps[:3].min() <= steps[:3].max() < 1.01
    assert 1.9 < steps[3:].min() <= steps[3:].max() < 2.01


def test_splats_outside_of_the_range_of_the_format_are_counted_and_cut(tmp_path):
    splats = some_splats(6, log_scales=(0.0, 0.1))
    splats.log_scales[0, 1], splats.log_scales[1, 2] = 5.94, 5.9375
    splats.log_scales[2], splats.log_scales[3, :2] = -10.01, -10.01
    splats.means[4, 1], splats.means[5, 1] = -(2**23) - 1, 2**23
    assert num_cut(splats) == 3
    write_spz(tmp_path / "a.spz", splats, "RDF")
    assert read_spz(tmp_path / "a.spz").means[4:, 1].tolist() == [-(2**23), 2**23 - 1], "with their signs"
