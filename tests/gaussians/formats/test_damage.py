"""Damaged files of splats end in one line that names them, never in another exception, and use little memory."""

import contextlib
import copy
import gzip
import io
import json
import zipfile

import numpy as np
import pytest

from splat_cli.errors import FormatError
from splat_cli.gaussians.formats import FORMATS, read_splats, write_splats
from splat_cli.gaussians.formats.gltf import read_container, write_container
from tests.gaussians.formats.refused import assert_one_line
from tests.gaussians.some_splats import some_splats

SUFFIXES = [found.suffix for found in FORMATS.values()]

pytestmark = pytest.mark.filterwarnings("ignore:.*view-dependent colours")  # .splat drops them


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
        read_or_refused(path)


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
    """SuperSplat 1 wrote such files; colours are between 0 and 1."""
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
        (b'"srgb_rec709_display"', b'"lin_rec709_display" '),
        (b'"kernel":"ellipse"', b'"kernel":"square" '),
        (b'"extensionsUsed":["KHR_gaussian', b'"extensionsRequired":["EXT'),
        (b'"componentType":5126', b'"componentType":5122'),  # not normalized
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


WRONG = (None, -1, 7, 10**400, 1.5, float("nan"), "../../etc/passwd", True, [], {}, [None], [-1, 10**400, {}])


def damaged_documents(document):
    """Copies of a JSON document, each with one value removed or replaced by each of WRONG."""

    def places(values, path=()):
        for key in values if isinstance(values, dict) else range(min(len(values), 3)):
            yield (*path, key)
            if isinstance(values[key], dict | list):
                yield from places(values[key], (*path, key))

    for path in places(document):
        for wrong in (..., *WRONG):
            changed = copy.deepcopy(document)
            holder = changed
            for key in path[:-1]:
                holder = holder[key]
            if wrong is ...:
                del holder[path[-1]]
            else:
                holder[path[-1]] = wrong
            yield changed
    yield from WRONG


def read_or_refused(path):
    """Read a file: its splats must be finite, or the error a single line. Returns whether it was refused."""
    with contextlib.suppress(FormatError):
        assert all(np.isfinite(array).all() for array in read_splats(path).arrays().values())
        return False
    assert_one_line(path)
    return True


def test_glb_with_any_value_wrong(tmp_path):
    path = tmp_path / "a.glb"
    write_splats(path, some_splats(20, 1))
    document, content = read_container(path.read_bytes())
    refused = 0
    for changed in damaged_documents(document):
        path.write_bytes(write_container(changed, bytes(content)))
        refused += read_or_refused(path)
    assert refused > 400


def test_sog_with_any_value_wrong(tmp_path):
    path = tmp_path / "a.sog"
    write_splats(path, some_splats(20, 1))
    whole = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(whole)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    refused = 0
    for changed in damaged_documents(json.loads(members["meta.json"])):
        with zipfile.ZipFile(path, "w") as file:
            for name, content in (members | {"meta.json": json.dumps(changed).encode()}).items():
                file.writestr(name, content)
        refused += read_or_refused(path)
    assert refused > 300
