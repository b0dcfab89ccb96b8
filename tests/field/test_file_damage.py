"""Files of colour fields with an intact container and damaged contents are refused in one line."""

import io
import json
import zipfile

import numpy as np
import pytest

from splat_cli.errors import FormatError
from splat_cli.field.file import NAME, read_field, write_field
from tests.field_scenes import lively_field, some_splats
from tests.peak_memory import assert_little_memory


@pytest.fixture
def saved(backend, tmp_path):
    splats = some_splats(20)
    write_field(tmp_path / NAME, lively_field(backend, splats), splats, [f"{i}" for i in range(6)])
    return tmp_path / NAME


def rewritten(path, arrays, header):
    """The file with some arrays, and some keys of its header, replaced."""
    with np.load(path) as file:
        before = dict(file)
    content = json.loads(before.pop("header").tobytes())
    for key, value in header.items():
        *outer, last = key.split(".")
        place = content
        for name in outer:
            place = place[name]
        place[last] = value
    np.savez(path, header=np.frombuffer(json.dumps(content).encode(), np.uint8), **(before | arrays))
    return path


def assert_refused(path):
    with pytest.raises(FormatError, match=r"is not the file of a colour field \([^)]+") as caught:
        read_field(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("shape", None),
        ("shape", 3),
        ("shape", []),
        ("shape.grid", "x"),
        ("shape.hidden", 64),
        ("shape.hidden", [64.0]),
        ("shape.hidden", ["a"]),
        ("shape.hidden", [-8]),
        ("shape.hidden", [1 << 40]),
        ("shape.grid.growth", 1e308),
        ("shape.grid.growth", float("nan")),
        ("shape.grid.growth", -2.0),
        ("shape.grid.growth", "2"),
        ("shape.grid.levels", 1.0),
        ("shape.grid.levels", 1 << 70),
        ("shape.grid.features", 2.0),
        ("shape.grid.dimensions", 2),
        ("shape.grid.base_resolution", 1 << 400),
        ("shape.appearance", -1),
        ("shape.appearance", 1e300),
        ("shape.direction_degree", 99),
        ("shape.direction_degree", None),
        ("frame", None),
        ("frame.center", [1, 2]),
        ("frame.center", ["a", 0, 0]),
        ("frame.center", [1e300, 0, 0]),
        ("frame.inv_radius", float("nan")),
        ("frame.inv_radius", 0),
        ("frame.inv_radius", [1, 2]),
        ("names", None),
        ("names", []),
        ("names", [1, 2, 3, 4, 5, 6]),
        ("names", {}),
        ("names", "abcdef"),
        ("format", None),
        ("format", 2),
    ],
)
def test_wrong_header(saved, key, value):
    assert_refused(rewritten(saved, {}, {key: value}))


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("means", np.zeros((20, 4))),
        ("means", np.zeros((0, 3), complex)),
        ("means", np.array(["a"] * 60)),
        ("means", np.float32(3)),
        ("sh0", np.zeros((19, 3))),
        ("sh0", np.zeros((20, 3), int)),
        ("quats", np.zeros(80)),
        ("tables", np.zeros(7)),
        ("network", np.zeros(0)),
        ("more", np.zeros(3)),
        ("header", np.zeros(3)),
        ("header", np.frombuffer(b"[" * 100_000, np.uint8)),
        ("header", np.frombuffer(b"[]", np.uint8)),
        ("embeddings", np.datetime64("2000-01-01")),
    ],
)
def test_wrong_arrays(saved, name, array):
    with np.load(saved) as content:
        np.savez(saved, **(dict(content) | {name: array}))
    assert_refused(saved)


def test_nonfinite_arrays(saved):
    with np.load(saved) as content:
        tables = content["tables"].copy()
    tables[3] = np.nan
    assert_refused(rewritten(saved, {"tables": tables}, {}))


def test_nonfinite_splats_are_dropped(saved):
    with np.load(saved) as content:
        means = content["means"].copy()
    means[3] = np.nan
    splats = read_field(rewritten(saved, {"means": means}, {})).splats
    assert (len(splats), splats.num_dropped) == (19, 1)


def _member(header, data=b""):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(
    "content",
    [
        _member("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}"),
        _member("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", bytes(8)),
        _member("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"cos\nsystem\n(S'id'\ntR."),
        _member("{'descr': '|V0', 'fortran_order': False, 'shape': (5,)}"),
        _member("{'descr': [('a', '<f4', (1000000,))], 'fortran_order': False, 'shape': (5,)}"),
        _member("{'descr': '<f4', 'fortran_order': 3, 'shape': 'abc'}"),
        _member("(" * 5000),
        _member("{'descr': '<M8[999999999999999Y]', 'fortran_order': False, 'shape': ()}", bytes(8)),
        b"",
        b"\x93NUMPY\3\0",
        b"\x93NUMPY\1\0\xff\xff",
    ],
)
def test_members_that_are_not_arrays(saved, content):
    with zipfile.ZipFile(saved) as before:
        members = {name: before.read(name) for name in before.namelist()}
    with zipfile.ZipFile(saved, "w") as after:
        for name, member in (members | {"means.npy": content}).items():
            after.writestr(name, member)
    assert_refused(saved)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_compressed_arrays(saved, method):
    """Compressed zeros that unpack to a thousand times their size."""
    stream = io.BytesIO()
    np.save(stream, np.zeros(50_000_000, np.float32))
    with zipfile.ZipFile(saved, "a", method) as file:
        file.writestr("more.npy", stream.getvalue())
    del stream
    assert_little_memory(lambda: assert_refused(saved), 64 << 20)
