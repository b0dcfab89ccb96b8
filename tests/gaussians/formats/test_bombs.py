"""Small files that would unpack to much data: refused in one line, before memory is allocated."""

import gzip
import io
import json
import struct
import zipfile

import numpy as np
import pytest
from PIL import Image

from splat_cli.gaussians.formats import read_splats, write_splats
from tests.gaussians.formats.refused import assert_one_line
from tests.gaussians.some_splats import some_splats
from tests.peak_memory import assert_little_memory

MAX_BYTES = 64 << 20


def refused_in_little_memory(path):
    return assert_little_memory(lambda: assert_one_line(path), MAX_BYTES + 4 * path.stat().st_size)


def rewritten(path, changes, compression=zipfile.ZIP_STORED):
    """A .sog of 20 splats with some members and some keys replaced."""
    write_splats(path, some_splats(20, 1))
    with zipfile.ZipFile(path) as file:
        contents = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in (contents | changes(contents)).items():
            file.writestr(name, content)
    return path


def _webp(width, height):
    stream = io.BytesIO()
    Image.new("RGBA", (width, height)).save(stream, format="WebP", lossless=True, method=0)
    return stream.getvalue()


def test_sog_with_a_huge_image(tmp_path):
    path = rewritten(tmp_path / "a.sog", lambda _: {"means_l.webp": _webp(9000, 9000)})
    assert path.stat().st_size < 100_000
    assert "9000x9000" in refused_in_little_memory(path)


def test_sog_with_huge_images_and_a_count_to_match(tmp_path):
    def change(contents):
        meta = json.loads(contents["meta.json"]) | {"count": 9000 * 9000}
        del meta["shN"]
        image = _webp(9000, 9000)
        return {name: image for name in contents if name.endswith(".webp")} | {"meta.json": json.dumps(meta)}

    assert "too many" in refused_in_little_memory(rewritten(tmp_path / "a.sog", change))


def test_sog_with_a_huge_meta(tmp_path):
    changes = {"meta.json": b" " * 200_000_000}
    path = rewritten(tmp_path / "a.sog", lambda _: changes, zipfile.ZIP_DEFLATED)
    assert "200,000,000" in refused_in_little_memory(path)


def test_sog_whose_meta_is_longer_than_it_says(tmp_path):
    path = rewritten(
        tmp_path / "a.sog", lambda c: {"meta.json": c["meta.json"] + b" " * 200_000_000}, zipfile.ZIP_DEFLATED
    )
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\1\2", 24), (b"PK\3\4", 22)):
        place = content.rindex(signature)
        struct.pack_into("<I", content, place + offset, 5000)
    path.write_bytes(content)
    refused_in_little_memory(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_sog_in_another_compression(tmp_path, method):
    assert "compression method" in refused_in_little_memory(rewritten(tmp_path / "a.sog", lambda _: {}, method))


def test_sog_with_a_member_twice(tmp_path):
    path = rewritten(tmp_path / "a.sog", lambda _: {})
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("meta.json", "{}")
    assert "2 members" in refused_in_little_memory(path)


@pytest.mark.parametrize("degree", [0, 3])
def test_spz_of_zeros(tmp_path, degree):
    width = 20 + 3 * ((degree + 1) ** 2 - 1)
    n = 200_000_000 // width
    path = tmp_path / "a.spz"
    header = struct.pack("<4sIIBBBB", b"NGSP", 3, n, degree, 12, 0, 0)
    path.write_bytes(gzip.compress(header + bytes(n * width)))
    assert "too many" in refused_in_little_memory(path)


def test_spz_of_version_4_of_zeros(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    n = 10_000_000
    sizes = [n * width for width in (9, 1, 3, 3, 4)]
    streams = [zstandard.ZstdCompressor().compress(bytes(size)) for size in sizes]
    table = b"".join(struct.pack("<QQ", len(s), size) for s, size in zip(streams, sizes, strict=True))
    header = struct.pack("<4sIIBBBBI12x", b"NGSP", 4, n, 0, 12, 0, 5, 32)
    (tmp_path / "a.spz").write_bytes(header + table + b"".join(streams))
    assert "too many" in refused_in_little_memory(tmp_path / "a.spz")


def _changed_glb(path, change):
    """A .glb of 1,000 splats with a changed JSON document."""
    write_splats(path, some_splats(1000, 3))
    content = path.read_bytes()
    length = struct.unpack_from("<I", content, 12)[0]
    document = json.loads(content[20 : 20 + length])
    change(document)
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text + content[20 + length :]
    path.write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks)
    return path


def test_glb_with_many_primitives_on_the_same_arrays(tmp_path):
    def change(document):
        document["meshes"][0]["primitives"] *= 100

    assert "more than once" in refused_in_little_memory(_changed_glb(tmp_path / "a.glb", change))


def test_glb_with_a_count_that_differs(tmp_path):
    def change(document):
        document["accessors"][0]["count"] = 7

    refused_in_little_memory(_changed_glb(tmp_path / "a.glb", change))


def test_largest_file_that_is_read_stays_within_its_memory(tmp_path):
    """Zeros compress well: the maximum number of splats in the smallest file."""
    n = (16 << 20) // 236
    path = tmp_path / "a.spz"
    header = struct.pack("<4sIIBBBB", b"NGSP", 3, n, 3, 12, 0, 0)
    path.write_bytes(gzip.compress(header + bytes(n * 65)))
    splats = assert_little_memory(lambda: read_splats(path), MAX_BYTES + 4 * path.stat().st_size)
    assert len(splats) == n
    assert np.isfinite(splats.means).all()
