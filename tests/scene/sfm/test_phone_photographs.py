"""Photographs as phones make them: HEIC and AVIF files, GPS data."""

import math
import sys

import numpy as np
import pytest
from PIL import Image
from PIL.ExifTags import GPS, IFD, Base

from splat_cli import image_files
from splat_cli.image_files import FORMATS, open_image
from splat_cli.scene import make_sample_scene, read_scene
from splat_cli.scene.images.decode import decode_photo, image_size
from splat_cli.scene.sfm.gps import gps_locations
from splat_cli.scene.sfm.photographs import collect_photographs

METRES = 30.0  # a unit of the sample scene
LATITUDE, LONGITUDE, ALTITUDE = 48.1, 11.5, 520.0


def gps_exif(east, north, up, model="Phone 7"):
    """EXIF data of a photograph so many metres from a place in Munich."""
    sine = math.sin(math.radians(LATITUDE)) ** 2
    meridian = 6_378_137 * (1 - 6.69437999e-3) / (1 - 6.69437999e-3 * sine) ** 1.5
    parallel = 6_378_137 / (1 - 6.69437999e-3 * sine) ** 0.5 * math.cos(math.radians(LATITUDE))
    exif = Image.Exif()
    exif[Base.Model] = model
    exif.get_ifd(IFD.GPSInfo).update(
        {
            GPS.GPSLatitudeRef: "N", GPS.GPSLatitude: _sexagesimal(LATITUDE + math.degrees(north / meridian)),
            GPS.GPSLongitudeRef: "E", GPS.GPSLongitude: _sexagesimal(LONGITUDE + math.degrees(east / parallel)),
            GPS.GPSAltitudeRef: b"\0", GPS.GPSAltitude: ALTITUDE + up,
        }
    )  # fmt: skip
    return exif


def _sexagesimal(angle):
    degrees, rest = divmod(angle, 1)
    minutes, rest = divmod(60 * rest, 1)
    return degrees, minutes, 60 * rest


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
    image_files._register_heif.cache_clear()
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(ValueError, match=r"HEIC needs pillow-heif: pip install 'splat-cli\[heic\]'"):
        image_size(tmp_path / "a.heic")
    image_files._register_heif.cache_clear()


@pytest.mark.usefixtures("heif")
def test_the_other_decoders_of_pillow_heif_stay_closed(tmp_path):
    """What a HEIC file calls itself otherwise is not opened by a decoder outside the list."""
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(20))
    with pytest.raises(ValueError, match="cannot be opened|not an image"):
        image_size(tmp_path / "a.heic")


@pytest.mark.usefixtures("heif")
def test_heic_and_avif_become_jpeg_for_colmap(tmp_path):
    exif = gps_exif(1, 2, 3)
    save(tmp_path / "photos/IMG_1.HEIC", exif, format="HEIF")
    save(tmp_path / "photos/IMG_1.jpg")
    save(tmp_path / "photos/deep/IMG_2.heic", exif)
    wanted = ["IMG_1.HEIC.jpg", "IMG_1.jpg", "deep/IMG_2.jpg"]
    if "AVIF" in FORMATS:
        save(tmp_path / "photos/z.avif", exif)
        wanted.append("z.jpg")
    for _ in range(2):  # the second time as after an interruption
        names, skipped = collect_photographs(tmp_path / "photos", tmp_path / "images")
        assert (names, skipped) == (wanted, [])
    with open_image(tmp_path / "images/deep/IMG_2.jpg") as image:
        assert (image.format, image.size, image.getexif()[Base.Model]) == ("JPEG", (40, 30), "Phone 7")
    assert set(gps_locations(tmp_path / "images", names)) == set(wanted) - {"IMG_1.jpg"}


def test_gps_data_become_metres(tmp_path):
    places = {"a.jpg": (0, 0, 0), "b.jpg": (100, 0, 0), "c.jpg": (0, -200, 0), "d.jpg": (0, 0, 30)}
    for name, place in places.items():
        save(tmp_path / name, gps_exif(*place))
    save(tmp_path / "none.jpg")
    found = gps_locations(tmp_path, [*places, "none.jpg"])
    expected = np.array(list(places.values())) - np.mean(list(places.values()), axis=0)
    np.testing.assert_allclose([found[name] for name in places], expected, atol=0.02)


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


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gps") / "sample"
    make_sample_scene(folder, num_views=48, width=320, height=240)
    return read_scene(folder)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [METRES, 0.1], ids=["outdoors", "on a table"])
def test_scale_and_level_come_from_gps(sample, splat, tmp_path, unit):
    """Up is -y in the sample scene: east, north, up are x, z, -y. A table is smaller than the errors of GPS."""
    pytest.importorskip("pycolmap")
    random = np.random.default_rng(0)
    views = sample.views[:12]
    for view in views:
        x, y, z = unit * view.center + random.normal(0, 0.5, 3)
        exif = gps_exif(x, z, -y)
        (tmp_path / "photos").mkdir(exist_ok=True)
        Image.open(view.path).save(tmp_path / "photos" / view.name, quality=95, exif=exif)
    result = splat("sfm", tmp_path / "photos", "-o", tmp_path / "scene", "--camera-model", "SIMPLE_PINHOLE")
    assert result.code == 0, result.err
    found = {view.name: view for view in read_scene(tmp_path / "scene").views}
    if unit < 1:
        assert "from GPS" not in result.out
        return
    assert "metres and level from GPS" in result.out
    centers = np.array([found[view.name].center for view in views])
    expected = unit * np.array([view.center for view in views])[:, [0, 2, 1]] * [1, 1, -1]
    offsets = centers - expected
    assert np.abs(offsets - offsets.mean(axis=0)).max() < 2.0
