"""Damaged files of splats end in one line that names them, never in another exception or in much memory."""

import contextlib
import gzip
import io
import itertools
import struct
import sys
import zipfile

import numpy as np
import pytest
from PIL import Image

from splat_cli.errors import FormatError
from splat_cli.gaussians.formats import FORMATS, read_splats, write_splats
from tests.gaussians.some_splats import some_splats

SUFFIXES = [found.suffix for found in FORMATS.values()]


def rewrite_spz(path, change):
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()))))


def assert_one_line(path):
    with pytest.raises(FormatError) as caught:
        read_splats(path)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("eighths", range(8))
def test_truncated(tmp_path, suffix, eighths):
    path = tmp_path / f"a{suffix}"
    write_splats(path, some_splats(20, 1))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * eighths // 8 + (suffix == ".splat")])
    assert_one_line(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_file(tmp_path, suffix):
    assert_one_line(tmp_path / f"a{suffix}")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_random_damage(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    write_splats(path, some_splats(3, 1))
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    plain = gzip.decompress(whole.tobytes()) if suffix == ".spz" else b""
    rng = np.random.default_rng(5)
    for i in range(200):
        source = np.frombuffer(plain, np.uint8) if plain and i % 2 else whole
        damaged = source.copy()
        places = rng.integers(len(source), size=rng.integers(1, 4))
        damaged[places] ^= (1 << rng.integers(8, size=len(places))).astype(np.uint8)
        path.write_bytes(gzip.compress(damaged.tobytes()) if plain and i % 2 else damaged.tobytes())
        with contextlib.suppress(FormatError):
            assert all(np.isfinite(array).all() for array in read_splats(path).arrays().values())


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
    zstandard = pytest.importorskip("zstandard")
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


def test_version_4_without_zstandard_says_what_to_install(tmp_path, monkeypatch):
    write_splats(tmp_path / "a.spz", some_splats(5, 0))
    as_version_4(tmp_path / "a.spz")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(FormatError, match=r"splat-cli\[zstd\]"):
        read_splats(tmp_path / "a.spz")


def test_spz_of_version_2(tmp_path):
    """Version 3 has four bytes for a quaternion, version 2 three, which are x, y and z."""
    path = tmp_path / "a.spz"
    write_splats(path, some_splats(1, 0))
    rewrite_spz(path, lambda c: c[:4] + struct.pack("<I", 2) + c[8:-4] + bytes([255, 128, 128]))
    np.testing.assert_allclose(np.abs(read_splats(path).quats[0]), [0, 1, 0, 0], atol=0.01)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"packed_scale", b"packed_style"),
        (b"element chunk 2", b"element chunk 1"),
        (b"min_scale_y", b"min_skale_y"),
        (b"property float min_g", b"property float min_h"),
        (b"f_rest_3\n", b"f_rest_9\n"),
        (b"element vertex 300", b"element vertex 9999999999"),
    ],
)
def test_compressed_ply_that_lacks_something(tmp_path, old, new):
    path = tmp_path / "a.compressed.ply"
    write_splats(path, some_splats(300, 1))
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))
    assert_one_line(path)


def test_compressed_ply_without_bounds_of_color(tmp_path):
    """As SuperSplat 1 wrote it: colours are between 0 and 1."""
    path = tmp_path / "a.compressed.ply"
    splats = some_splats(2, 0)
    splats.sh0[:] = [[-1, 0, 1], [1, 0.5, -1]]
    write_splats(path, splats)
    head, data = path.read_bytes().split(b"end_header\n")
    names = [b"property float %s_%s\n" % (end, c) for end in (b"min", b"max") for c in (b"r", b"g", b"b")]
    for name in names:
        head = head.replace(name, b"")
    path.write_bytes(head + b"end_header\n" + data[: 12 * 4] + data[18 * 4 :])
    np.testing.assert_allclose(np.abs(read_splats(path).sh0[:, 0]), 0.5 / 0.28209479, atol=0.01)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"count":20', b'"count":99'),
        (b'"count":20', b'"count":-1'),
        (b'"nodes":[{"mesh":0}]', b'"nodes":[{"scale":1}]'),
        (b":ROTATION", b":ROTAXION"),
        (b'"meshes"', b'"mashes"'),
        (b'"extensions"', b'"extensionz"'),
        (b"SH_DEGREE_1_COEF_2", b"XH_DEGREE_1_COEF_2"),
        (b'"VEC4"', b'"VEC3"'),
        (b'"buffers":[', b'"buffers":{'),
    ],
)
def test_glb_that_lacks_something(tmp_path, old, new):
    path = tmp_path / "a.glb"
    write_splats(path, some_splats(20, 1))
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new + b" " * (len(old) - len(new))))
    assert_one_line(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("meta.json", lambda c: c.replace(b'"version": 2', b'"version": 1')),
        ("meta.json", lambda c: c.replace(b'"count": 20', b'"count": 99')),
        ("meta.json", lambda c: c.replace(b'"count": 20', b'"count": -1')),
        ("meta.json", lambda c: c.replace(b'"codebook": [', b'"codebook": [1, ')),
        ("meta.json", lambda c: c.replace(b"quats.webp", b"quits.webp")),
        ("meta.json", lambda c: c.replace(b'"bands": 1', b'"bands": 9')),
        ("meta.json", lambda c: b"[" * 100_000),
        ("shN_labels.webp", lambda c: _image(np.full((5, 4, 3), 77))),
        ("quats.webp", lambda c: _image(np.full((5, 4, 4), 251))),
        ("sh0.webp", lambda c: _image(np.full((2, 2, 4), 9))),
        ("scales.webp", lambda c: c[:30]),
    ],
)
def test_sog_that_lacks_something(tmp_path, name, change):
    path = tmp_path / "a.sog"
    write_splats(path, some_splats(20, 1))
    with zipfile.ZipFile(path) as file:
        contents = {one: file.read(one) for one in file.namelist()}
    changed = change(contents[name])
    assert changed != contents[name]
    with zipfile.ZipFile(path, "w") as file:
        for one, content in contents.items():
            file.writestr(one, changed if one == name else content)
    assert_one_line(path)


def _image(pixels):
    stream = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(stream, format="WebP", lossless=True, exact=True)
    return stream.getvalue()
