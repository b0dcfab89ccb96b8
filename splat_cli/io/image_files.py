"""Opening of image files, restricted to formats of photographs and pictures.

Without a list of formats, Pillow tries all decoders, whatever the suffix; its EPS decoder starts Ghostscript.
"""

import importlib.util
import io
import warnings
from pathlib import Path

from PIL import Image
from PIL.TiffImagePlugin import IMAGELENGTH, IMAGEWIDTH, TiffImageFile

from splat_cli.io.decoder import AVIF_BRANDS, HEIF_BRANDS, DecodedImage, image_brand

FORMATS: tuple[str, ...] = ("JPEG", "PNG", "TIFF", "WEBP", "BMP", "GIF", "PPM", "JPEG2000")
if importlib.util.find_spec("PIL.AvifImagePlugin"):  # from Pillow 11.3 on
    FORMATS += ("AVIF",)
PHOTOGRAPH_SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".bmp", ".heic", ".heif", ".avif")
"""Suffixes of photographs, for datasets that do not list them."""
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)  # callers check sizes before they decode
warnings.filterwarnings("ignore", module=r"PIL\.")  # warnings about damaged metadata, which is not used


def open_image(file: Path | io.BytesIO, formats: tuple[str, ...] = FORMATS) -> Image.Image:
    """The image with only its header decoded. formats: Pillow's names; HEIC is read only with the default, FORMATS.

    EXIF rotation is ignored, as COLMAP does.
    HEIC and AVIF are decoded in another process (decoder.py). Raises UnidentifiedImageError for other formats,
    ValueError for HEIC without its decoder, and any exception of a decoder for damaged files.
    """
    if formats != FORMATS:
        return _as_stored(Image.open(file, formats=formats))
    brand = image_brand(file)
    if brand in HEIF_BRANDS and importlib.util.find_spec("pillow_heif") is None:
        raise ValueError("HEIC needs pillow-heif: pip install 'splat-cli[heic]'")
    if brand in HEIF_BRANDS or (brand in AVIF_BRANDS and "AVIF" in FORMATS):
        return DecodedImage(file)
    return _as_stored(Image.open(file, formats=[name for name in formats if name != "AVIF"]))


def _as_stored(image: Image.Image) -> Image.Image:
    """The image without the rotation that Pillow applies to TIFF files, and to no others."""
    if isinstance(image, TiffImageFile):
        image._size = image.tag_v2[IMAGEWIDTH], image.tag_v2[IMAGELENGTH]
        image.load_end = lambda: None  # type: ignore[method-assign]
    return image
