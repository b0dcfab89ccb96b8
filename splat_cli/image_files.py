"""The one place where image files are opened: by decoders meant for photographs and pictures, and by no others.

Without a list of formats Pillow tries all that it has, whatever a file's name says: that for EPS starts Ghostscript.
"""

import importlib.util
import io
import warnings
from pathlib import Path

from PIL import Image

FORMATS: tuple[str, ...] = ("JPEG", "PNG", "TIFF", "WEBP", "BMP", "GIF", "PPM", "JPEG2000")
if importlib.util.find_spec("PIL.AvifImagePlugin"):  # from Pillow 11.3 on
    FORMATS += ("AVIF",)
PHOTOGRAPH_SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".bmp")
"""Of files that are taken for photographs where nothing names them."""
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)  # callers check sizes before they decode


def open_image(file: Path | io.BytesIO, formats: tuple[str, ...] = FORMATS) -> Image.Image:
    """The image with only its header decoded.

    Raises UnidentifiedImageError for files in no such format, and of damaged ones whatever a decoder raises.
    """
    return Image.open(file, formats=formats)
