"""Colours given by users, and colour profiles of photographs."""

import io
import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from splat_cli.errors import UsageError

if TYPE_CHECKING:
    from PIL.ImageCms import ImageCmsTransform

_PROBES = bytes(itertools.chain(*itertools.product((0, 90, 180, 255), repeat=3)))
"""Colours of all kinds, three bytes each."""
_SAME = 4  # levels
_NAMES = {"black": (0.0, 0.0, 0.0), "white": (1.0, 1.0, 1.0)}


def parse_color(text: str) -> tuple[float, float, float]:
    """RGB from 0 to 1 of "black", "white" or "r,g,b" (each 0 to 255). UsageError."""
    if text in _NAMES:
        return _NAMES[text]
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not all(part.isdecimal() and int(part) <= 255 for part in parts):
        raise UsageError(f"{text!r}: expected black, white or r,g,b with 0 to 255 each")
    red, green, blue = (int(part) / 255 for part in parts)
    return red, green, blue


def color_of(value: str | Sequence[float]) -> tuple[float, float, float]:
    """RGB from 0 to 1: text is parsed by `parse_color`, three numbers from 0 to 1 are kept. UsageError."""
    if isinstance(value, str):
        return parse_color(value)
    try:
        red, green, blue = map(float, value)
    except (TypeError, ValueError):
        red = green = blue = math.nan
    if not all(0 <= part <= 1 for part in (red, green, blue)):
        raise UsageError(f"color {value!r}: expected three numbers from 0 to 1, or a string such as 'white'")
    return red, green, blue


@lru_cache(64)
def to_srgb(profile: bytes) -> "ImageCmsTransform | None":
    """Conversion of 8-bit RGB pictures with this ICC profile to sRGB.

    None for profiles of the same colours, of grey or CMYK pictures, and damaged ones.
    """
    from PIL import Image, ImageCms  # here: the command line parses colours without it

    try:
        opened = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        transform = ImageCms.buildTransform(opened, ImageCms.createProfile("sRGB"), "RGB", "RGB")
        shown = transform.apply(Image.frombytes("RGB", (len(_PROBES) // 3, 1), _PROBES))
        differences = (abs(one - other) for one, other in zip(_PROBES, shown.tobytes(), strict=True))
        return transform if max(differences) > _SAME else None
    except Exception:  # exceptions of any type
        return None
