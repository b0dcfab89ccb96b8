"""Fast decoding of ordinary JPEG files, without the interpreter lock."""

import numpy as np
import simplejpeg

_START = b"\xff\xd8\xff"
_COLORSPACES = ("YCbCr", "Gray")


def decode_jpeg(content: bytes, size: tuple[int, int]) -> np.ndarray | None:
    """uint8 [H, W, 3] of a JPEG file of `size` (width, height): the same bits as Pillow's, in less time.

    Both use libjpeg-turbo, but here it writes straight into the array, in one call that lets go of Python's lock. None
    for every other file: of another size, in CMYK, damaged, or no JPEG.
    """
    if not content.startswith(_START):
        return None
    try:
        height, width, colorspace, _ = simplejpeg.decode_jpeg_header(content)
        if (width, height) != size or colorspace not in _COLORSPACES:
            return None
        return simplejpeg.decode_jpeg(content, "RGB")
    except ValueError:
        return None
