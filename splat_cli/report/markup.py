"""Parts of pages: numbers as text, HTML and SVG (text is escaped, markup is not), pictures as data URLs."""

import base64
import io
import math
import re
from html import escape

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
    return _address("png", _encoded(Image.fromarray(pixels), "PNG"))


def _encoded(picture: Image.Image, kind: str, **settings: int) -> bytes:
    memory = io.BytesIO()
    picture.save(memory, kind, **settings)
    return memory.getvalue()


def _address(kind: str, encoded: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(encoded).decode('ascii')}"


def compact(value: float) -> str:
    """950, 24.9k, 1.3M: three digits and a suffix."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """4.2 s, 3 m 20 s, 1 h 5 m."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} m {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} m"


def roughly(seconds: float) -> str:
    """A few seconds, about 40 s, 5 min or 3 h."""
    if seconds < 10:
        return "a few seconds"
    if seconds < 90:
        return f"about {10 * round(seconds / 10)} s"
    return f"about {round(seconds / 60)} min" if seconds < 5400 else f"about {round(seconds / 3600)} h"


def size(num_bytes: float) -> str:
    """A number of bytes in MiB or GiB."""
    return f"{num_bytes / 2**30:.1f} GiB" if num_bytes >= 2**30 else f"{num_bytes / 2**20:.0f} MiB"


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """About `count` round numbers from `low` to `high`, at least two: multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / count
    power = 10 ** math.floor(math.log10(rough))
    steps = [factor * power for factor in (1, 2, 5, 10)]
    chosen = next(number for number, step in enumerate(steps) if step >= 0.999 * rough)
    found = _multiples(steps[chosen], low, high)
    return found if len(found) > 1 else _multiples(steps[chosen - 1], low, high)


def _multiples(step: float, low: float, high: float) -> list[float]:
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


_VOID = {"br", "img", "input"}  # elements without an end tag


class Markup(str):
    """Text that is HTML."""

    __slots__ = ()


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """The element `name`. `class_` writes the attribute class, `stroke_width` writes stroke-width; None is omitted."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def join(*parts: object) -> Markup:
    """Concatenation of the parts; None is skipped."""
    return Markup(
        "".join(part if isinstance(part, Markup) else escape(str(part)) for part in parts if part is not None)
    )


def prose(text: str) -> Markup:
    """Text with `code` in backticks."""
    parts = text.split("`")
    return join(*(code(part) if number % 2 else part for number, part in enumerate(parts)))


def code(command: str) -> Markup:
    """A command or options. Lines do not break within the dashes of an option."""
    words = re.split("( )", command)
    return tag("code", *(tag("span", word, class_="option") if word.startswith("-") else word for word in words))
