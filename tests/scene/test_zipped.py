"""COLMAP models in zip files, and malicious archives."""

import contextlib
import errno
import os
import zipfile

import pytest

from splat_cli.errors import DiskError, FormatError, SceneError
from splat_cli.gaussians.formats import read_splats
from splat_cli.scene import read_scene
from splat_cli.scene.zipped import unzip_scene
from tests.fuzz.large_files import zip_of_members
from tests.scene.models import small_model, write_scene


def zipped_scene(folder, names=None, binary=True):
    """The model of a small scene moved into model.zip, under other names if given."""
    write_scene(folder, small_model(), binary)
    model = folder / "sparse" / "0"
    with zipfile.ZipFile(folder / "model.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(model.iterdir()):
            archive.write(path, (names or "sparse/0/{}").format(path.name))
            path.unlink()
    model.rmdir()
    model.parent.rmdir()
    return folder


@pytest.mark.parametrize("names", ["sparse/0/{}", "{}", "../../{}", "/abs/{}"])
@pytest.mark.parametrize("binary", [True, False])
def test_model_in_a_zip(tmp_path, names, binary):
    scene = read_scene(zipped_scene(tmp_path / "scene", names, binary))
    assert len(scene.views) == 3
    assert len(scene.points) == 5
    assert "model.zip" in scene.found
    assert [path.name for path in tmp_path.iterdir()] == ["scene"]
    assert sorted(path.name for path in (tmp_path / "scene").iterdir()) == ["images", "model.zip"]


def test_pipe_called_zip_is_skipped(tmp_path):
    os.mkfifo(tmp_path / "a.zip")
    assert len(read_scene(zipped_scene(tmp_path)).views) == 3


def test_first_of_several_models(tmp_path):
    zipped_scene(tmp_path)
    with zipfile.ZipFile(tmp_path / "model.zip", "a") as archive:
        archive.writestr("sparse/1/cameras.bin", b"damaged")
    assert read_scene(tmp_path).found == f"the COLMAP model in {tmp_path / 'model.zip'}"
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("sparse/1/images.bin", bytes(10_000))
    scene = read_scene(tmp_path)
    assert len(scene.views) == 3
    assert scene.found.endswith(
        f"model.zip (sparse/1 in {other} has a larger list of images: unpack it, and give that folder)"
    )


def test_bomb(tmp_path):
    zipped_scene(tmp_path)
    with zipfile.ZipFile(tmp_path / "model.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cameras.bin", bytes(100_000_000))
    with pytest.raises(
        SceneError, match=r"model\.zip cannot be unpacked .*100,000,000 bytes; the maximum is 16,777,216"
    ):
        read_scene(tmp_path)


def test_full_disk_is_not_reported_as_a_damaged_archive(tmp_path, monkeypatch):
    path = zipped_scene(tmp_path) / "model.zip"

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("splat_cli.scene.colmap.dataset._unpack", full)
    monkeypatch.setattr("shutil.copyfileobj", full)
    for unpack in (lambda: read_scene(tmp_path), lambda: unzip_scene(path, tmp_path / "unpacked")):
        with pytest.raises(DiskError, match=r"not enough space in .* to unpack .*model\.zip: free some"):
            unpack()


def test_total_is_bounded(tmp_path):
    """Each member alone is within the limit."""
    zipped_scene(tmp_path)
    with zipfile.ZipFile(tmp_path / "model.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("cameras.bin", "images.bin", "points3D.bin"):
            archive.writestr(name, bytes(10_000_000))
    with pytest.raises(SceneError, match=r"would unpack to 30,000,000 bytes"):
        read_scene(tmp_path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_member_that_is_listed_twice(tmp_path):
    zipped_scene(tmp_path)
    with zipfile.ZipFile(tmp_path / "model.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for _ in range(300):
            archive.writestr("cameras.bin", bytes(40_000))
    with pytest.raises(SceneError, match=r"cameras\.bin is in it 300 times"):
        read_scene(tmp_path)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_compression(tmp_path, method):
    zipped_scene(tmp_path)
    with zipfile.ZipFile(tmp_path / "model.zip", "w", method) as archive:
        archive.writestr("cameras.bin", bytes(1000))
    with pytest.raises(SceneError, match="compression method"):
        read_scene(tmp_path)


def test_reason_is_never_empty(tmp_path):
    """A member whose bytes end early raises an exception without a message."""
    zipped_scene(tmp_path)
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo("sparse/0/points3D.bin")
        first = member.header_offset + 30 + len(member.filename)
    content = bytearray(path.read_bytes())
    content[first : first + member.compress_size] = bytes(member.compress_size)
    path.write_bytes(content)
    with pytest.raises(SceneError, match=r"cannot be unpacked \([^)]+"):
        read_scene(tmp_path)


@pytest.mark.parametrize("part", range(1, 12))
def test_damaged_archive(tmp_path, part):
    path = zipped_scene(tmp_path) / "model.zip"
    content = bytearray(path.read_bytes())
    content[len(content) * part // 12] ^= 0xFF
    path.write_bytes(content)
    with contextlib.suppress(SceneError):
        read_scene(tmp_path)


def test_a_list_of_many_members_is_not_read(tmp_path):
    """A list of 5 MB took 60 MB; one of 500 MB would take 6 GB."""
    (tmp_path / "a.sog").write_bytes(zip_of_members(5 << 20))
    with pytest.raises(FormatError, match=r"list of members has 5,242,850 bytes, more than the limit of 4,194,304"):
        read_splats(tmp_path / "a.sog")
