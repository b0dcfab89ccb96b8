"""Pictures as data URLs, limited in size."""

import base64
import io

import numpy as np
from PIL import Image

_QUALITIES = (88, 80, 70, 60)
_SHRINK = 0.75
_MAX_SIDE, _MAX_BYTES = 1000, 100_000  # limits of a picture: 24 take at most 2.4 MB, a third more as base64


def shown(pixels: np.ndarray) -> str:
    """uint8 [H, W, 3] as JPEG, small enough for a page with dozens of pictures."""
    return jpeg(pixels, _MAX_SIDE, _MAX_BYTES)


def jpeg(pixels: np.ndarray, max_side: int, max_bytes: int) -> str:
    """uint8 [H, W, 3] as JPEG, at most `max_side` pixels; quality, then size, is reduced to fit `max_bytes`."""
    picture = Image.fromarray(pixels)
    picture.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
    while True:
        for quality in _QUALITIES:
            encoded = _encoded(picture, "JPEG", quality=quality)
            if len(encoded) <= max_bytes or max(picture.size) <= 16:
                return _address("jpeg", encoded)
        smaller = [max(1, round(_SHRINK * side)) for side in picture.size]
        picture = picture.resize((smaller[0], smaller[1]), Image.Resampling.LANCZOS)


def png(pixels: np.ndarray) -> str:
    """uint8 [H, W, 4], with transparency, as PNG."""
    return _address("png", _encoded(Image.fromarray(pixels), "PNG", optimize=True))


def _encoded(picture: Image.Image, kind: str, **settings: int) -> bytes:
    memory = io.BytesIO()
    picture.save(memory, kind, **settings)
    return memory.getvalue()


def _address(kind: str, encoded: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(encoded).decode('ascii')}"
