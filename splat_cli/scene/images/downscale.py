"""Downscaled photographs and masks: by integer factors, or to a maximum side."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image

from splat_cli.scene.images.decode import wholly_white
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.view import View


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


def shrunk_view(view: View, longer_side: int) -> View:
    scale = min(1.0, longer_side / max(view.width, view.height))
    return view.resized(max(1, round(view.width * scale)), max(1, round(view.height * scale)))


def nearest_mask(mask: np.ndarray, view: View) -> np.ndarray:
    """Mask at the view's size, nearest pixels."""
    return resized_image(mask, view, Image.Resampling.NEAREST)


def whole_mask(mask: np.ndarray, view: View) -> np.ndarray:
    """Mask at the view's size, 255 where all source pixels are used."""
    return wholly_white(Image.fromarray(mask), (view.width, view.height))


def small_copies(
    photographs: ImageSet,
    indices: Sequence[int],
    longer_side: int,
    shrink_mask: Callable[[np.ndarray, View], np.ndarray],
) -> ImageSet:
    """Photographs with views and masks, downscaled to at most `longer_side` pixels."""

    def shrink(index: int) -> tuple[View, np.ndarray, np.ndarray | None]:
        view = shrunk_view(photographs.views[index], longer_side)
        image, mask = photographs.images[index], photographs.masks[index]
        return view, resized_image(image, view, Image.Resampling.BOX), None if mask is None else shrink_mask(mask, view)

    with ThreadPoolExecutor() as pool:
        views, images, masks = zip(*pool.map(shrink, indices), strict=True)
    return ImageSet(list(views), images, masks, [])


def resized_image(image: np.ndarray, view: View, how: Image.Resampling) -> np.ndarray:
    """The image at the view's size."""
    if image.shape[:2] == (view.height, view.width):
        return image
    return np.asarray(Image.fromarray(image).resize((view.width, view.height), how))
