"""Photographs of phones: HEIC and AVIF files, GPS data."""

import errno
import os
import shutil
import struct
import sys
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image, ImageCms
from PIL.ExifTags import GPS, IFD, Base

from splat_cli.errors import DiskError
from splat_cli.io.image_files import FORMATS, open_image
from splat_cli.scene import read_scene
from splat_cli.scene.images.decode import COLORS, decode_photo, image_size
from splat_cli.scene.sfm.mapping import gps_locations
from splat_cli.scene.sfm.photographs import collect_photographs, lost_colors
from tests.scene.sfm.exif import METRES, gps_exif

SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def save(path, exif=None, size=(40, 30), **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.fromarray(np.full((size[1], size[0], 3), (200, 100, 50), np.uint8))
    picture.save(path, **({"exif": exif.tobytes()} if exif else {}), **options)


@pytest.fixture
def heif():
    """Adds Pillow's encoder of HEIC files."""
    module = pytest.importorskip("pillow_heif", reason="HEIC needs pillow-heif (extra heic)")
    module.register_heif_opener()


@pytest.mark.usefixtures("heif")
def test_heic_is_read_as_a_photograph(tmp_path):
    save(tmp_path / "a.heic", quality=95)
    assert image_size(tmp_path / "a.heic") == (40, 30)
    pixels, finite = decode_photo(tmp_path / "a.heic", (20, 15), None)
    assert finite is None
    assert np.abs(pixels.astype(int) - [200, 100, 50]).max() < 8


@pytest.mark.usefixtures("heif")
def test_heic_without_its_decoder_says_what_to_install(tmp_path, monkeypatch):
    save(tmp_path / "a.heic")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(ValueError, match=r"HEIC needs pillow-heif: pip install 'splat-cli\[heic\]'"):
        image_size(tmp_path / "a.heic")


@pytest.mark.usefixtures("heif")
def test_the_other_decoders_of_pillow_heif_stay_closed(tmp_path):
    """A HEIC file with another brand is not opened by a decoder outside the list."""
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(20))
    with pytest.raises(ValueError, match="cannot be opened|not an image"):
        image_size(tmp_path / "a.heic")


@pytest.mark.usefixtures("heif")
def test_heic_and_avif_become_jpeg_for_colmap(tmp_path):
    exif = gps_exif(1, 2, 3)
    save(tmp_path / "photos/IMG_1.HEIC", exif, format="HEIF")
    save(tmp_path / "photos/IMG_1.jpg")
    save(tmp_path / "photos/deep/IMG_2.heic", exif, icc_profile=SRGB)
    wanted = ["IMG_1.HEIC.jpg", "IMG_1.jpg", "deep/IMG_2.jpg"]
    if "AVIF" in FORMATS:
        save(tmp_path / "photos/z.avif", exif)
        wanted.append("z.jpg")
    for _ in range(2):  # the second call is like one after an interruption
        names, skipped = collect_photographs(tmp_path / "photos", tmp_path / "images")
        assert (names, skipped) == (wanted, [])
    with open_image(tmp_path / "images/deep/IMG_2.jpg") as image:
        assert (image.format, image.size, image.getexif()[Base.Model]) == ("JPEG", (40, 30), "Phone 7")
        assert image.info["icc_profile"] == SRGB
    assert set(gps_locations(tmp_path / "images", names)) == set(wanted) - {"IMG_1.jpg"}


def test_photographs_keep_their_transparency_for_training(tmp_path):
    (tmp_path / "photos").mkdir()
    for number in range(3):
        picture = Image.new("RGBA", (40, 30), (200, 100, 50, 0 if number else 255))
        picture.save(tmp_path / f"photos/{number}.webp", lossless=True, exact=True)
    names, _ = collect_photographs(tmp_path / "photos", tmp_path / "images")
    assert names == ["0.jpg", "1.png", "2.png"]
    assert Image.open(tmp_path / "images/1.png").getpixel((0, 0)) == (200, 100, 50, 0)


@pytest.mark.usefixtures("heif")
def test_a_damaged_heic_is_left_out(tmp_path):
    for name in "abc":
        save(tmp_path / f"photos/{name}.jpg")
    path = tmp_path / "photos/d.heic"
    save(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - 20])  # its header says the same
    assert image_size(path) == (40, 30)
    names, skipped = collect_photographs(tmp_path / "photos", tmp_path / "images")
    assert names == ["a.jpg", "b.jpg", "c.jpg"]
    assert [line.split(" (")[0] for line in skipped] == ["d.heic: cannot be decoded"]


def test_gps_data_become_metres(tmp_path):
    places = {"a.jpg": (0, 0, 0), "b.jpg": (100, 0, 0), "c.jpg": (0, -200, 0), "d.jpg": (0, 0, 30)}
    for name, place in places.items():
        save(tmp_path / name, gps_exif(*place))
    save(tmp_path / "none.jpg")
    found = gps_locations(tmp_path, [*places, "none.jpg"])
    expected = np.array(list(places.values())) - np.mean(list(places.values()), axis=0)
    np.testing.assert_allclose([found[name] for name in places], expected, atol=0.02)


def test_gps_data_on_both_sides_of_the_date_line(tmp_path):
    """The median of 179.9999 and -179.9999 degrees was on the other side of the Earth: up was down."""
    for name, reference, height in (("east.jpg", "E", 0), ("top.jpg", "E", 40), ("west.jpg", "W", 0)):
        exif = gps_exif(0, 0, height)
        tags = exif.get_ifd(IFD.GPSInfo)
        tags[GPS.GPSLongitude], tags[GPS.GPSLongitudeRef] = (179.0, 59.0, 59.9), reference
        save(tmp_path / name, exif)
    found = gps_locations(tmp_path, ["east.jpg", "top.jpg", "west.jpg"])
    east, top, west = (np.array(found[f"{name}.jpg"]) for name in ("east", "top", "west"))
    np.testing.assert_allclose(top - east, [0, 0, 40], atol=0.01)
    np.testing.assert_allclose((west - east)[1:], 0, atol=0.01)
    assert 1 < (west - east)[0] < 10


def test_gps_data_of_all_hemispheres_and_broken_ones(tmp_path):
    south = gps_exif(0, 0, 0)
    south.get_ifd(IFD.GPSInfo)[GPS.GPSLatitudeRef] = "S"
    save(tmp_path / "south.jpg", south)
    save(tmp_path / "north.jpg", gps_exif(0, 0, 0))
    broken = gps_exif(0, 0, 0)
    broken.get_ifd(IFD.GPSInfo)[GPS.GPSLatitude] = (1.0, 2.0)
    save(tmp_path / "broken.jpg", broken)
    found = gps_locations(tmp_path, ["south.jpg", "north.jpg", "broken.jpg"])
    assert set(found) == {"south.jpg", "north.jpg"}
    assert found["north.jpg"][1] - found["south.jpg"][1] > 9e6
    assert gps_locations(tmp_path, ["broken.jpg"]) == {}


@pytest.mark.slow
def test_scale_and_level_come_from_gps(sample, outdoors):
    scene, printed = outdoors
    assert "metres and level from GPS" in printed
    found = {view.name: view for view in read_scene(scene).views}
    centers = np.array([found[view.name].center for view in sample])
    expected = METRES * np.array([view.center for view in sample])[:, [0, 2, 1]] * [1, 1, -1]
    offsets = centers - expected
    assert np.abs(offsets - offsets.mean(axis=0)).max() < 2.0


@pytest.mark.slow
def test_a_table_is_smaller_than_the_errors_of_gps(reconstruct):
    _, printed = reconstruct(0.1)
    assert "photographs registered" in printed
    assert "from GPS" not in printed


def test_a_full_disk_is_that_of_the_copy(tmp_path, monkeypatch):
    for name in "abc":
        save(tmp_path / f"photos/{name}.jpg")
    full = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "photos/a.jpg"))
    monkeypatch.setattr(os, "link", Mock(side_effect=OSError(errno.EXDEV, "Invalid cross-device link")))
    monkeypatch.setattr(shutil, "copy2", Mock(side_effect=full))
    with pytest.raises(DiskError, match=r"images/a\.jpg was not written: no space left on the disk"):
        collect_photographs(tmp_path / "photos", tmp_path / "images")


@pytest.mark.usefixtures("heif")
def test_colors_that_converted_photographs_lose_are_named(tmp_path):
    for name in ("a.heic", "b.heic", "c.jpg"):
        save(tmp_path / name)
    path = tmp_path / "b.heic"
    content = path.read_bytes()
    at = content.index(b"nclx") + 4
    path.write_bytes(content[:at] + struct.pack(">HH", 9, 18) + content[at + 4 :])
    assert list(lost_colors(tmp_path)) == [f"1 of 3 photographs {COLORS.format('HDR (HLG)')} (b.heic)"]
