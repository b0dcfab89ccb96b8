"""Downscaled copies of photographs, in colour and grey."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from PIL import Image

from splat_cli.device import Backend
from splat_cli.scene.images.decode import wholly_white
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.view import View


@dataclasses.dataclass(frozen=True)
class GrayscaleImages:
    """The copies' cameras, and on the device their pixels uint8, one copy after the other.

    begins: int64 [V], where each begins. sizes: int32 [V, 2], width and height.
    """

    views: list[View]
    pixels: Any
    begins: Any
    sizes: Any

    @classmethod
    def of(
        cls, backend: Backend, views: Sequence[View], images: Sequence[np.ndarray], longer_side: int
    ) -> GrayscaleImages:
        """Copies of images uint8 [H, W, 3], shrunk to `longer_side` pixels where they are larger."""
        small = [_shrunk(view, longer_side) for view in views]
        with ThreadPoolExecutor() as pool:
            grays = list(pool.map(_gray, images, small))
        begins = np.cumsum([0, *(gray.size for gray in grays)])[:-1].astype(np.int64)
        sizes = np.array([(view.width, view.height) for view in small], np.int32)
        flat = np.concatenate([gray.ravel() for gray in grays])
        return cls(small, backend.upload(flat), backend.upload(begins), backend.upload(sizes))


def intrinsics(view: View) -> np.ndarray:
    """Float64 [3, 3]."""
    return np.array([[view.fx, 0, view.cx], [0, view.fy, view.cy], [0, 0, 1.0]])


def _shrunk(view: View, longer_side: int) -> View:
    scale = min(1.0, longer_side / max(view.width, view.height))
    return view.resized(max(1, round(view.width * scale)), max(1, round(view.height * scale)))


def nearest_mask(mask: np.ndarray, view: View) -> np.ndarray:
    """At the view's size, every so many-th pixel."""
    return _resized(mask, view, Image.Resampling.NEAREST)


def whole_mask(mask: np.ndarray, view: View) -> np.ndarray:
    """At the view's size, 255 where all that a pixel is made of counts."""
    return wholly_white(Image.fromarray(mask), (view.width, view.height))


def small_copies(
    photographs: ImageSet,
    indices: Sequence[int],
    longer_side: int,
    shrink_mask: Callable[[np.ndarray, View], np.ndarray],
) -> ImageSet:
    """These photographs with their views and masks, shrunk to `longer_side` pixels where they are larger."""

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
