"""Downscaled photographs and masks, by integer factors."""

import numpy as np
from PIL import Image


def downscale_photograph(
    image: np.ndarray, mask: np.ndarray | None, factor: int
) -> tuple[np.ndarray, np.ndarray | None, int]:
    """A photograph and its mask downscaled, and the number of pixels that count."""
    image = downscale_image(image, factor)
    if mask is None:
        return image, None, image.shape[0] * image.shape[1]
    mask = downscale_mask(mask, factor)
    return image, mask, int(np.count_nonzero(mask))


def downscale_image(image: np.ndarray, factor: int) -> np.ndarray:
    """Area means uint8 [H // factor, W // factor, ...] of an image uint8 [H, W] or [H, W, 3], as `View.downscaled`."""
    if factor == 1:
        return image
    height, width = (size // factor * factor for size in image.shape[:2])
    return np.asarray(Image.fromarray(image).reduce(factor, (0, 0, width, height)))


def downscale_mask(mask: np.ndarray, factor: int) -> np.ndarray:
    """uint8 [H // factor, W // factor]: 255 where all pixels of a mask uint8 [H, W] of 0 and 255 count, else 0."""
    if factor == 1:
        return mask
    return (downscale_image(mask, factor) == 255).astype(np.uint8) * np.uint8(255)


def fine_detail(image: np.ndarray) -> tuple[float, float]:
    """Mean squares, for values of 0 to 1, of detail and noise that an image uint8 [H, W, 3] loses at half the size.

    Detail of photographs has at most three quarters of the mean square that it has at half the size, white noise four
    times as much: what is beyond three quarters is noise (docs/experiments/densification.md).
    """
    if min(image.shape[:2]) < 4:
        return 0.0, 0.0
    half = downscale_image(image, 2)
    fine, coarse = _difference(image, half), _difference(half, downscale_image(half, 2))
    noise = min(max(16 * fine - 12 * coarse, 0.0) / 13, fine)
    return fine - noise, noise


def _difference(image: np.ndarray, half: np.ndarray) -> float:
    """Mean squared difference of an image and its half-size copy, enlarged again."""
    height, width = 2 * half.shape[0], 2 * half.shape[1]
    enlarged = Image.fromarray(half).resize((width, height), Image.Resampling.BICUBIC)
    return float(np.square(image[:height, :width] - np.asarray(enlarged, np.float32)).mean()) / 255**2
