"""Colours given by users."""

import math
from collections.abc import Sequence

from splat_cli.errors import UsageError

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
        raise UsageError(f"color {value!r}: expected three numbers from 0 to 1, or a text such as 'white'")
    return red, green, blue
