"""Decoding of HEIC, AVIF and OpenEXR files in child processes, which may crash."""

import io

import numpy as np
import pytest
from PIL import Image
from PIL.ExifTags import Base

from splat_cli.io import image_files
from splat_cli.io.image_files import FORMATS, open_image
from splat_cli.scene.depth_maps import read_depths
from splat_cli.scene.images.decode import decode_photo, image_size
from tests.scene.depth_files import write_exr

needs_avif = pytest.mark.skipif("AVIF" not in FORMATS, reason="this Pillow has no AVIF")


@pytest.fixture(autouse=True)
def no_processes():
    """Each test starts and ends its own decoder process."""
    image_files._close()
    yield
    image_files._close()


@pytest.fixture
def avif(tmp_path):
    path, exif = tmp_path / "a.avif", Image.Exif()
    exif[Base.Model] = "Phone 7"
    Image.fromarray(np.full((30, 40, 3), (200, 100, 50), np.uint8)).save(path, exif=exif.tobytes())
    return path


def processes():
    return list(image_files._idle.queue)


@needs_avif
@pytest.mark.parametrize("is_content", [False, True])
def test_avif_is_read_from_a_file_and_from_memory(avif, is_content):
    with open_image(io.BytesIO(avif.read_bytes()) if is_content else avif) as image:
        assert (image.size, image.mode) == ((40, 30), "RGB")
        assert image.getexif()[Base.Model] == "Phone 7"
        assert np.abs(np.asarray(image).astype(int) - [200, 100, 50]).max() < 8
        assert image.resize((4, 3)).getpixel((0, 0)) == image.copy().getpixel((0, 0))


@needs_avif
def test_one_process_decodes_many_files(avif):
    image_size(avif)
    (first,) = processes()
    for _ in range(3):
        decode_photo(avif, (20, 15), None)
    assert processes() == [first]


@needs_avif
def test_killed_decoder_is_replaced(avif):
    image_size(avif)
    processes()[0].kill()
    processes()[0].wait()
    assert image_size(avif) == (40, 30)


@needs_avif
@pytest.mark.parametrize("program", ["import os; os.abort()", "print('')", "import os; os.close(1); input()"])
def test_crash_of_a_decoder_is_reported_for_the_file(avif, monkeypatch, program):
    monkeypatch.setattr(image_files, "_GRACE", 0.1)
    with monkeypatch.context() as changed:
        changed.setattr(image_files, "_PROGRAM", program)
        with pytest.raises(ValueError, match="^cannot be opened .its decoder failed: (signal SIG|exit code)"):
            image_size(avif)
    assert processes() == []
    assert image_size(avif) == (40, 30)


@needs_avif
def test_a_photograph_that_claims_to_be_avif_is_refused(tmp_path):
    (tmp_path / "a.avif").write_bytes(b"\0\0\0\x18ftypavif" + bytes(40))
    with pytest.raises(ValueError, match="cannot be opened"):
        image_size(tmp_path / "a.avif")


@pytest.mark.parametrize("length", [100, 5_000])
def test_a_damaged_exr_prints_nothing(tmp_path, capfd, length):
    write_exr(tmp_path / "a.exr", np.random.default_rng(0).random((90, 120)).astype(np.float32))
    (tmp_path / "a.exr").write_bytes((tmp_path / "a.exr").read_bytes()[:length])
    with pytest.raises(ValueError, match="is not a readable OpenEXR file"):
        read_depths(tmp_path / "a.exr", 1 << 20)
    assert capfd.readouterr() == ("", "")
