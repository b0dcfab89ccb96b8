"""Opening of image files, restricted to decoders of photographs and pictures.

Without a list of formats, Pillow tries all decoders, whatever a file's suffix: that of EPS starts Ghostscript.
"""

import functools
import importlib.util
import io
import warnings
from pathlib import Path

from PIL import Image

FORMATS: tuple[str, ...] = ("JPEG", "PNG", "TIFF", "WEBP", "BMP", "GIF", "PPM", "JPEG2000")
if importlib.util.find_spec("PIL.AvifImagePlugin"):  # from Pillow 11.3 on
    FORMATS += ("AVIF",)
PHOTOGRAPH_SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".bmp", ".heic", ".heif", ".avif")
"""Of files that are taken for photographs where nothing names them."""
_HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"mif1", b"msf1")  # ISO/IEC 23008-12, annex B
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)  # callers check sizes before they decode


def open_image(file: Path | io.BytesIO, formats: tuple[str, ...] = FORMATS) -> Image.Image:
    """The image with only its header decoded. formats: Pillow's names; HEIC is read if they are all of FORMATS.

    Raises UnidentifiedImageError for files in no such format, ValueError for HEIC without its decoder, and of damaged
    ones whatever a decoder raises.
    """
    if formats == FORMATS and _is_heif(file):
        _register_heif()
        formats = ("HEIF",)
    return Image.open(file, formats=formats)


def _is_heif(file: Path | io.BytesIO) -> bool:
    """Whether it begins as HEIC files do; AVIF files have another brand."""
    if isinstance(file, io.BytesIO):
        head = file.getbuffer()[:12].tobytes()
    else:
        with file.open("rb") as opened:
            head = opened.read(12)
    return head[4:8] == b"ftyp" and head[8:12] in _HEIF_BRANDS


@functools.cache
def _register_heif() -> None:
    """Adds the decoder of pillow-heif to Pillow. ValueError where it is not installed."""
    try:
        import pillow_heif
    except ImportError:
        raise ValueError("HEIC needs pillow-heif: pip install 'splat-cli[heic]'") from None
    pillow_heif.register_heif_opener()
