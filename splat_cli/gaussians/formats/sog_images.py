"""Images of a .sog: a pixel per splat, as lossless WebP in a zip file."""

import io
import zipfile

import numpy as np
from PIL import Image

from splat_cli.archives import read_member
from splat_cli.image_files import open_image

MAX_SIDE = 16383
"""Maximum width and height of a WebP image, in pixels."""
_MAX_SPARE_PIXELS = 1 << 16
"""Maximum number of pixels of an image, in addition to two for each of its splats."""
_MAX_HEADER_BYTES = 1 << 20
"""Maximum size of a WebP file in bytes, in addition to four for each pixel."""


def as_image(rows: np.ndarray) -> np.ndarray:
    """Pixels [N, C] in rows of a nearly square image, padded with zeros."""
    width = max(1, int(np.ceil(len(rows) ** 0.5)))
    image = np.zeros((max(1, -(-len(rows) // width)) * width, rows.shape[1]), np.uint8)
    image[: len(rows)] = rows
    return image.reshape(-1, width, rows.shape[1])


def encode_webp(pixels: np.ndarray) -> bytes:
    """The pixels uint8 [H, W, C] as a lossless WebP image."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="WebP", lossless=True, exact=True)
    return stream.getvalue()


def read_pixels(file: zipfile.ZipFile, name: str, count: int) -> np.ndarray:
    """The first pixels uint8 [count, 4] of an image; ValueError if it has fewer, or far more."""
    pixels = read_image(file, name, 2 * count + _MAX_SPARE_PIXELS)
    if len(pixels) < count:
        raise ValueError(f"{name!a} has {len(pixels)} pixels, too few for {count} splats")
    return pixels[:count]


def read_image(file: zipfile.ZipFile, name: str, most: int) -> np.ndarray:
    """Pixels uint8 [P, 4] of an image in row-major order. ValueError, before decoding, for more than `most`."""
    with open_image(io.BytesIO(read_member(file, name, 4 * most + _MAX_HEADER_BYTES)), ("WEBP",)) as image:
        if image.width * image.height > most:
            raise ValueError(f"{name!a} has {image.width}x{image.height} pixels, more than its splats need")
        return np.asarray(image.convert("RGBA")).reshape(-1, 4)
