"""Damaged and foreign PLY files end in a FormatError that names the file, never in another exception."""

import contextlib

import numpy as np
import pytest

from splat_cli.errors import FormatError
from splat_cli.gaussians.ply import read_ply, write_ply
from splat_cli.io.ply_header import header_comments
from tests.gaussians.some_splats import some_splats
from tests.gaussians.test_ply import columns_of, write_foreign


@pytest.fixture
def ply(tmp_path):
    write_ply(tmp_path / "a.ply", some_splats(20, 1))
    return tmp_path / "a.ply"


def test_a_header_that_cannot_be_read_is_an_error(tmp_path):
    """Splats without their comments would silently lose origin and antialiasing."""
    with pytest.raises(FormatError, match=r"gone\.ply cannot be read"):
        header_comments(tmp_path / "gone.ply")


@pytest.mark.parametrize("eighths", range(8))
@pytest.mark.parametrize("text", [False, True])
def test_truncated(tmp_path, eighths, text):
    path = write_foreign(tmp_path / "a.ply", columns_of(some_splats(20, 1)), text=text)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * eighths // 8])
    with pytest.raises(FormatError, match=r"a\.ply"):
        read_ply(path)


def test_last_byte_missing(ply):
    ply.write_bytes(ply.read_bytes()[:-1])
    with pytest.raises(FormatError, match="truncated"):
        read_ply(ply)


@pytest.mark.parametrize("count", [b"21", b"19", b"0", b"99999999999", b"9" * 30, b"-1", b"many"])
def test_counts(ply, count):
    ply.write_bytes(ply.read_bytes().replace(b"vertex 20", b"vertex " + count))
    with pytest.raises(FormatError, match="declares"):
        read_ply(ply)


def test_huge_count_as_text(tmp_path):
    path = write_foreign(tmp_path / "a.ply", columns_of(some_splats(20, 1)), text=True)
    path.write_bytes(path.read_bytes().replace(b"vertex 20", b"vertex 2000"))
    with pytest.raises(FormatError, match="declares"):
        read_ply(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"ply\n",
        b"\x89PNG\r\n\x1a\n",
        b"ply\nformat ascii 1.0\nend_header\n",
        b"ply\nformat ascii 1.0\nelement vertex 0\nend_header\n",
        b"ply\nformat ascii 1.0\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n3 0 1 2\n",
        b"ply\nformat binary_little_endian 9.0\nelement vertex 0\nproperty float x\nend_header\n",
        b"ply\nformat ascii 1.0\nproperty float x\nend_header\n",
        b"ply\nformat ascii 1.0\nelement vertex 1\nproperty quad x\nend_header\n1\n",
        b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float x\nend_header\n1 1\n",
        b"ply\nformat ascii 1.0\ncomment \xff\nelement vertex 1\nproperty float x\nend_header\n1\n",
        b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\nnot-a-number\n",
    ],
)
def test_other_files(tmp_path, content):
    (tmp_path / "a.ply").write_bytes(content)
    with pytest.raises(FormatError, match=r"a\.ply"):
        read_ply(tmp_path / "a.ply")


def test_no_file(tmp_path):
    with pytest.raises(FormatError, match="cannot be read"):
        read_ply(tmp_path / "a.ply")
    with pytest.raises(FormatError, match="cannot be read"):
        read_ply(tmp_path)


@pytest.mark.parametrize("text", [False, True])
def test_random_damage(tmp_path, text):
    path = write_foreign(tmp_path / "a.ply", columns_of(some_splats(3, 1)), text=text)
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    header = path.read_bytes().index(b"end_header") + 11
    rng = np.random.default_rng(5)
    for i in range(300):
        damaged = whole.copy()
        places = rng.integers(header if i % 2 else len(whole), size=rng.integers(1, 4))
        damaged[places] ^= (1 << rng.integers(8, size=len(places))).astype(np.uint8)
        path.write_bytes(damaged.tobytes())
        with contextlib.suppress(FormatError):
            assert all(np.isfinite(array).all() for array in read_ply(path).arrays().values())


@pytest.mark.parametrize(("count", "number"), [(19, b"0"), (20, b"1_0")])
def test_text_with_more_rows_than_declared_or_invalid_numbers_is_refused(tmp_path, count, number):
    path = write_foreign(tmp_path / "a.ply", columns_of(some_splats(20, 1)), text=True)
    head, end, rows = path.read_bytes().partition(b"end_header\n")
    path.write_bytes(head.replace(b"vertex 20", b"vertex %d" % count) + end + rows.replace(b"0", number, 1))
    with pytest.raises(FormatError, match=f"declares {count} rows"):
        read_ply(path)
