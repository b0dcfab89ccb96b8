"""Downscaled copies of photographs, in colour and grey."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image

from splat_cli.device import Backend, DeviceArray
from splat_cli.scene.images.decode import wholly_white
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.view import View


@dataclasses.dataclass(frozen=True)
class GrayscaleImages:
    """Views of downscaled grey copies, and their pixels uint8 on the device, concatenated.

    begins: int64 [V], offset of each. sizes: int32 [V, 2], width and height.
    """

    views: list[View]
    pixels: DeviceArray
    begins: DeviceArray
    sizes: DeviceArray

    @classmethod
    def of(
        cls, backend: Backend, views: Sequence[View], images: Sequence[np.ndarray], longer_side: int
    ) -> GrayscaleImages:
        """Copies of images uint8 [H, W, 3], downscaled to at most `longer_side` pixels."""
        small = [_shrunk(view, longer_side) for view in views]
        with ThreadPoolExecutor() as pool:
            grays = list(pool.map(_gray, images, small))
        begins = np.cumsum([0, *(gray.size for gray in grays)])[:-1].astype(np.int64)
        sizes = np.array([(view.width, view.height) for view in small], np.int32)
        flat = np.concatenate([gray.ravel() for gray in grays])
        return cls(small, backend.upload(flat), backend.upload(begins), backend.upload(sizes))


def intrinsics(view: View) -> np.ndarray:
    """Camera matrix float64 [3, 3]."""
    return np.array([[view.fx, 0, view.cx], [0, view.fy, view.cy], [0, 0, 1.0]])


def _shrunk(view: View, longer_side: int) -> View:
    scale = min(1.0, longer_side / max(view.width, view.height))
    return view.resized(max(1, round(view.width * scale)), max(1, round(view.height * scale)))


def nearest_mask(mask: np.ndarray, view: View) -> np.ndarray:
    """Mask at the view's size, nearest pixels."""
    return _resized(mask, view, Image.Resampling.NEAREST)


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
        view = _shrunk(photographs.views[index], longer_side)
        image, mask = photographs.images[index], photographs.masks[index]
        return view, _resized(image, view, Image.Resampling.BOX), None if mask is None else shrink_mask(mask, view)

    with ThreadPoolExecutor() as pool:
        views, images, masks = zip(*pool.map(shrink, indices), strict=True)
    return ImageSet(list(views), images, masks, [])


def _gray(image: np.ndarray, view: View) -> np.ndarray:
    """uint8 [H, W] of the view's size."""
    return _resized(np.asarray(Image.fromarray(image).convert("L")), view, Image.Resampling.BOX)


def _resized(image: np.ndarray, view: View, how: Image.Resampling) -> np.ndarray:
    """The image at the view's size."""
    if image.shape[:2] == (view.height, view.width):
        return image
    return np.asarray(Image.fromarray(image).resize((view.width, view.height), how))
