"""8-bit RGB from pixels of any mode: 16 and 32 bits, floats, transparency, palettes."""

import numpy as np
from PIL import Image

_NOTHING = 2
"""The highest alpha of 255 of a picture that shows nothing; lossy files have such noise."""


class TransparentError(Exception):
    """Transparent pixels without a background."""


class InvisibleError(Exception):
    """No pixel that is not transparent."""


def to_rgb(image: Image.Image, background: tuple[int, int, int] | None) -> Image.Image:
    """8-bit RGB; transparent pixels show the background, TransparentError if it is None. Raises InvisibleError."""
    if image.mode.startswith("I"):
        return Image.fromarray(_integer_levels(image)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    layered = image.convert("RGBA")
    alpha = np.asarray(layered.getchannel("A"))
    if alpha.min(initial=255) == 255:
        return layered.convert("RGB")
    if alpha.max() <= _NOTHING:
        raise InvisibleError
    if background is None:
        raise TransparentError
    return Image.alpha_composite(Image.new("RGBA", layered.size, (*background, 255)), layered).convert("RGB")


def _integer_levels(image: Image.Image) -> np.ndarray:
    """Grey levels uint8 of 16-bit pixels (their high byte, where Pillow would clip) and 32-bit pixels.

    The range of 32-bit pixels is taken as 0 to 255 if none exceeds it, else 0 to 65535, else 0 to the maximum.
    """
    values = np.asarray(image)
    largest = values.max(initial=0)
    shift = 8 if image.mode != "I" or 255 < largest < 1 << 16 else 0 if largest < 256 else 23
    return np.clip(values >> shift, 0, 255).astype(np.uint8)


def float_levels(values: np.ndarray) -> tuple[Image.Image, np.ndarray | None]:
    """Grey levels of floating-point pixels, 0 black and 1 white; and a mask bool of finite pixels, or None if all are.

    Non-finite pixels get the mean level, to limit their effect on neighbours when downscaled.
    """
    finite = np.isfinite(values)
    if not finite.any():
        raise ValueError("no pixel is finite")
    levels = np.where(finite, np.clip(values, 0, 1), 0)
    levels[~finite] = levels[finite].mean()
    return Image.fromarray(np.rint(255 * levels).astype(np.uint8)), None if finite.all() else finite
