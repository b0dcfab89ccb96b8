"""Damaged files of splats end in one line that names them, never in another exception or in much memory."""

import contextlib
import gzip

import numpy as np
import pytest

from splat_cli.errors import FormatError
from splat_cli.gaussians.formats import FORMATS, read_splats, write_splats
from tests.gaussians.formats.refused import assert_one_line
from tests.gaussians.some_splats import some_splats

SUFFIXES = [found.suffix for found in FORMATS.values()]


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
