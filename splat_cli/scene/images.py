"""Photographs: their sizes, and their pixels, decoded in parallel."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, UnidentifiedImageError

from splat_cli.errors import SceneError
from splat_cli.scene.view import View


class Photographs(NamedTuple):
    """The views that have a photograph, their pixels uint8 [H, W, 3], and "name: reason" of the others."""

    views: list[View]
    images: list[np.ndarray]
    skipped: list[str]


def image_size(path: Path) -> tuple[int, int]:
    """(width, height) from the file's header. ValueError with the reason where there is none."""
    with _opened(path) as image:
        return image.size


def load_images(views: Sequence[View], progress: Callable[[int], object] | None = None) -> Photographs:
    """Decodes the views' photographs on all cores, each resized to its view's size.

    progress: called with 1 after every photograph. Broken photographs are left out, with their views.
    SceneError where none can be decoded.
    """
    found = Photographs([], [], [])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for view, pixels in zip(views, pool.map(_pixels_or_reason, views), strict=True):
            if isinstance(pixels, str):
                found.skipped.append(f"{view.name}: {pixels}")
            else:
                found.views.append(view)
                found.images.append(pixels)
            if progress is not None:
                progress(1)
    if not found.views:
        first = f" ({found.skipped[0]})" if found.skipped else ""
        raise SceneError(f"none of the {len(views)} photographs can be decoded{first}; copy them again")
    return found


def _pixels_or_reason(view: View) -> np.ndarray | str:
    try:
        return _pixels(view)
    except ValueError as error:
        return str(error)


def _pixels(view: View) -> np.ndarray:
    """uint8 [H, W, 3]; ValueError with the reason where the file cannot be decoded."""
    if view.path is None:
        raise ValueError("it has no photograph")
    size = (view.width, view.height)
    with _opened(view.path) as image:
        # A JPEG decodes faster to a half or a quarter; twice the wanted size leaves the filter something to do.
        image.draft(None, (2 * view.width, 2 * view.height))
        try:
            color = _rgb(image)
        except Exception as error:
            raise ValueError(f"cannot be decoded ({_one_line(error)})") from error
    if color.size != size:
        color = color.resize(size, Image.Resampling.LANCZOS)
    return np.array(color)


def _opened(path: Path) -> Image.Image:
    """The image with only its header read; ValueError with the reason."""
    try:
        return Image.open(path)
    except FileNotFoundError as error:
        raise ValueError("the file is missing") from error
    except UnidentifiedImageError as error:
        raise ValueError("the file is empty or not an image") from error
    except Exception as error:  # decoders raise whatever a broken file leads them into
        raise ValueError(f"cannot be opened ({_one_line(error)})") from error


def _rgb(image: Image.Image) -> Image.Image:
    """8-bit RGB; 16-bit grey keeps its high byte (Pillow would clip it), transparency is ignored."""
    if image.mode.startswith("I"):
        values = np.clip(np.asarray(image).astype(np.int64) >> 8, 0, 255)
        return Image.fromarray(values.astype(np.uint8)).convert("RGB")
    if image.mode == "P" and "transparency" in image.info:
        return image.convert("RGBA").convert("RGB")
    return image.convert("RGB")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
