"""Image files are opened in one place, by decoders that do not start programs."""

import io
import re
import struct
import sys
import zlib
from pathlib import Path

import pytest
from PIL import Image, UnidentifiedImageError
from PIL.ExifTags import Base
from PIL.PngImagePlugin import PngImageFile

from splat_cli.io import image_files
from splat_cli.io.image_files import FORMATS, header_exif, open_image
from splat_cli.processes.child_process import child_environment
from tests.subprocesses import finished

ROOT = Path(__file__).parents[2]
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 40 30\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.mark.parametrize("folder", ["splat_cli", "scripts"])
def test_nothing_else_opens_images(folder):
    calls = re.compile(r"\bImage\.open\(|\bPicture\.open\(|from PIL\.Image import|iio\.imread|imageio\.imread|cv2\.")
    found = [path.relative_to(ROOT) for path in sorted((ROOT / folder).rglob("*.py")) if calls.search(path.read_text())]
    expected = ["splat_cli/io/decoder_worker.py", "splat_cli/io/image_files.py"] if folder == "splat_cli" else []
    assert found == list(map(Path, expected))


def test_eps_named_png_is_refused(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(EPS)
    with Image.open(path) as opened:  # the decoder is called without our restriction
        assert opened.format == "EPS"
    with pytest.raises(UnidentifiedImageError):
        open_image(path)


@pytest.mark.parametrize("kind", FORMATS)
def test_common_formats_are_read(tmp_path, kind):
    Image.new("RGB", (8, 6), (10, 20, 30)).save(tmp_path / "a", kind)
    with open_image(tmp_path / "a") as image:
        assert image.size == (8, 6)


def test_heic_is_read_only_with_the_default_formats(monkeypatch):
    """A member of an archive that must be WebP does not start the HEIC decoder."""
    monkeypatch.setattr(image_files, "DecodedImage", lambda file: pytest.fail("the decoder was started"))
    with pytest.raises(UnidentifiedImageError):
        open_image(io.BytesIO(b"\0\0\0\x18ftypheic" + bytes(16)), ("WEBP",))


@pytest.mark.parametrize("place", ["before", "after", "none"])
def test_exif_data_of_a_png_without_its_pixels(tmp_path, monkeypatch, place):
    exif = Image.Exif()
    exif[Base.Model] = "Phone 7"
    chunk = exif.tobytes()[6:]
    plain, path = io.BytesIO(), tmp_path / "a.png"
    Image.effect_noise((300, 300), 50).save(plain, "PNG")
    content = plain.getvalue()
    at = {"before": content.index(b"IDAT") - 4, "after": content.index(b"IEND") - 4, "none": 0}[place]
    if at:
        added = struct.pack(">I", len(chunk)) + b"eXIf" + chunk
        content = content[:at] + added + struct.pack(">I", zlib.crc32(added[4:])) + content[at:]
    path.write_bytes(content)
    with monkeypatch.context() as patched, open_image(path) as image:
        patched.setattr(PngImageFile, "load", lambda self: pytest.fail("pixels were decoded"))
        assert header_exif(image).get(Base.Model) == (None if place == "none" else "Phone 7")
        patched.undo()
        assert image.convert("L").tobytes() == Image.open(io.BytesIO(plain.getvalue())).tobytes()


def test_damaged_metadata_prints_nothing(tmp_path):
    Image.new("RGB", (8, 6)).save(tmp_path / "a.jpg", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff")
    program = "from splat_cli.io.image_files import *; image = open_image(Path('a.jpg')); image.getexif(); image.load()"
    ended = finished([sys.executable, "-c", program], cwd=tmp_path, env=child_environment())
    assert (ended.returncode, ended.stderr) == (0, "")
