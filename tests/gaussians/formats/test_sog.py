"""SOG files with missing parts."""

import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from splat_cli.gaussians.formats import read_splats, write_splats
from tests.gaussians.formats.refused import assert_one_line
from tests.gaussians.some_splats import some_splats


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


def test_parts_of_sog_that_are_not_read_are_named(tmp_path):
    path = tmp_path / "a.sog"
    write_splats(path, some_splats(20, 0))
    path.write_bytes(_renamed(path.read_bytes(), b'"asset"', b'"lod"'))
    assert read_splats(path).unread == ("lod",)


def _renamed(content, old, new):
    """A .sog with another key in its meta.json."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as file, zipfile.ZipFile(stream, "w") as out:
        for name in file.namelist():
            out.writestr(name, file.read(name).replace(old, new) if name == "meta.json" else file.read(name))
    return stream.getvalue()


def _image(pixels):
    stream = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(stream, format="WebP", lossless=True, exact=True)
    return stream.getvalue()
