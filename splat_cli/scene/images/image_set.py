"""Photographs and their masks, undistorted, and at the size of their views.

`load_images` decodes all in parallel; `lazy_images` decodes each on each access, for datasets larger than memory.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from splat_cli.device import Backend, ceil_div
from splat_cli.errors import SceneError, UsageError
from splat_cli.io.files import UNREADABLE, fingerprint
from splat_cli.scene.depth_maps import DepthMaps
from splat_cli.scene.images.decode import (
    EXCLUDED,
    INVISIBLE,
    decode_mask,
    decode_photo,
    fill_masked,
    image_size,
    jpeg_reduction,
    reduced,
    wholly_white,
)
from splat_cli.scene.lens import Lens, undistort
from splat_cli.scene.view import View, evenly_spread

COUNTED, COUNTED_SIDE = 32, 128  # maximum numbers of photographs, and of rows and columns, for a mean colour

_ADVICE = {
    INVISIBLE: "export them again without an alpha channel, or with one that shows the scene",
    EXCLUDED: "masks are white where pixels count, with --invert-masks black; correct them, or give --masks none",
}
"""Reason -> advice if no photograph can be used."""


class ImageSet(NamedTuple):
    """Views with photographs, pixels uint8 [H, W, 3], masks, and "name: reason" of skipped photographs.

    A mask is uint8 [H, W], 255 for used pixels and 0 for ignored ones, or None if all are used. bad_pixels: name of a
    photograph -> number of non-finite pixels, which are masked. depth_maps: of these views, if they were read.
    """

    views: list[View]
    images: Sequence[np.ndarray]
    masks: Sequence[np.ndarray | None]
    skipped: list[str]
    bad_pixels: Mapping[str, int] = MappingProxyType({})
    depth_maps: DepthMaps | None = None


def mean_color(photographs: ImageSet) -> tuple[float, float, float]:
    """Mean colour of the used pixels, RGB, 0 to 1; of some pixels of some photographs. Black if these are masked."""
    pixels = []
    for index in evenly_spread(range(len(photographs.views)), COUNTED):
        image, mask = photographs.images[index], photographs.masks[index]
        some = tuple(slice(None, None, ceil_div(side, COUNTED_SIDE)) for side in image.shape[:2])
        pixels.append(image[some].reshape(-1, 3) if mask is None else image[some][mask[some] > 0])
    counted = np.concatenate(pixels)
    red, green, blue = counted.mean(0) / 255 if len(counted) else (0.0, 0.0, 0.0)
    return float(red), float(green), float(blue)


def load_images(
    views: Sequence[View],
    progress: Callable[[int], object] | None = None,
    *,
    backend: Backend | None = None,
    background: tuple[int, int, int] | None = (0, 0, 0),
    invert_masks: bool = False,
) -> ImageSet:
    """Decode photographs and masks on all cores, undistort them and resize each to its view's size.

    progress: called with 1 after each photograph. backend: undistorts; required if a view has a lens. background:
    colour behind transparent pixels, 0 to 255; None rejects these. Damaged photographs, and photographs without usable
    pixels, are skipped with their views. SceneError if none is left, UsageError without a required backend.
    """
    bent = next((view.name for view in views if view.lens is not None), None)
    if bent is not None and backend is None:
        raise UsageError(f"the lens of {bent} has distortion, which a backend corrects: give backend=open_backend()")
    loader = Loader(backend, background, invert_masks)
    found: list[tuple[View, np.ndarray, np.ndarray | None]] = []
    skipped = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for view, result in zip(views, pool.map(loader.load, views), strict=True):
            if isinstance(result, str):
                skipped.append(f"{view.name}: {result}")
            else:
                found.append((view, *result))
            if progress is not None:
                progress(1)
    if not found:
        raise SceneError(f"none of the {len(views)} photographs can be used{_why(skipped)}")
    return ImageSet(
        [view for view, _, _ in found],
        [image for _, image, _ in found],
        [mask for _, _, mask in found],
        skipped,
        loader.bad_pixels,
    )


def _why(skipped: Sequence[str]) -> str:
    """Error message if all photographs were skipped: the reason for the first one, and advice."""
    common = {line.partition(": ")[2] for line in skipped}
    advice = _ADVICE.get(common.pop(), "") if len(common) == 1 else ""
    first = f": {skipped[0]}" if skipped else ""
    return f"{first}; {advice or 'correct the files or the options'}"


class Loader:
    """Loads single photographs; thread-safe, with serialised use of the backend.

    bad_pixels: as in ImageSet, of the photographs loaded so far.
    """

    def __init__(self, backend: Backend | None, background: tuple[int, int, int] | None, invert_masks: bool) -> None:
        self.backend, self.background, self.invert_masks = backend, background, invert_masks
        self.backend_lock = threading.Lock()
        self.bad_pixels: dict[str, int] = {}
        self._seen_pixels: dict[tuple[object, ...], np.ndarray] = {}

    def load(self, view: View) -> tuple[np.ndarray, np.ndarray | None] | str:
        """Pixels and mask at the view's size, or the reason for skipping."""
        try:
            return self._load(view)
        except ValueError as error:
            return str(error)

    def _load(self, view: View) -> tuple[np.ndarray, np.ndarray | None]:
        if view.path is None:
            raise ValueError("it has no photograph")
        size, lens = (view.width, view.height), view.lens
        factor = None if lens is None else _lens_reduction(lens, view.path, size)
        decoded = size if lens is None or factor is None else reduced((lens.width, lens.height), factor)
        mask = None
        if view.mask is not None:
            mask = decode_mask(view.mask, view.path, image_size(view.path), self.invert_masks)
        # nothing mixes the pixels of a file of the view's size, which reports then show as they are
        is_mixed = mask is not None and not mask.all() and (lens is not None or mask.shape[1::-1] != size)
        photo, finite = decode_photo(view.path, decoded, self.background, factor, mask if is_mixed else None)
        if mask is not None and mask.shape[1::-1] != decoded:
            mask = wholly_white(Image.fromarray(mask), decoded)
        if finite is not None:
            self.bad_pixels[view.name] = int((finite == 0).sum())
            mask = finite if mask is None else np.minimum(mask, finite)
        if lens is not None:
            photo, mask = self._undistorted(lens, photo, mask, size)
        if not view.field_of_view.is_whole:
            seen = self._seen(view)
            mask = seen if mask is None else np.minimum(mask, seen)
        if mask is not None and not mask.any():
            raise ValueError(EXCLUDED)
        return photo, None if mask is None or mask.all() else mask

    def _seen(self, view: View) -> np.ndarray:
        """Mask uint8 [H, W] of the pixels that the lens of the view can see; cached."""
        key = view.distortion, view.width, view.height, view.fx, view.fy, view.cx, view.cy
        if key not in self._seen_pixels:
            self._seen_pixels[key] = np.where(np.isfinite(view.rays()[..., 0]), 255, 0).astype(np.uint8)
        return self._seen_pixels[key]

    def _undistorted(
        self, lens: Lens, photo: np.ndarray, mask: np.ndarray | None, size: tuple[int, int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Photograph and mask, at the lens' size or smaller, undistorted to its pinhole camera at `size`."""
        assert self.backend is not None
        height, width = photo.shape[:2]
        pinhole, x, y = lens.pinhole, width / lens.width, height / lens.height
        if (width, height) != (lens.width, lens.height):
            lens = lens.resized(width, height)
            pinhole = pinhole.resized(max(1, round(pinhole.width * x)), max(1, round(pinhole.height * y)))
        with self.backend_lock:
            photo, mask = undistort(self.backend, lens, photo, mask, pinhole)
        if photo.shape[1::-1] != size:
            fill_masked(photo, mask)  # where the lens saw nothing
            photo = np.array(Image.fromarray(photo).resize(size, Image.Resampling.LANCZOS))
            mask = wholly_white(Image.fromarray(mask), size)
        return photo, mask


def _lens_reduction(lens: Lens, path: Path, size: tuple[int, int]) -> int:
    """The factor by which the decoder may shrink a photograph before it is undistorted and filtered to `size`."""
    pinhole = lens.pinhole
    return jpeg_reduction(
        path, (ceil_div(size[0] * lens.width, pinhole.width), ceil_div(size[1] * lens.height, pinhole.height))
    )


_SHOWN = 5  # photographs reported by name; of the others, only the number is reported
Pixels = tuple[np.ndarray, np.ndarray | None]


def lazy_images(
    views: Sequence[View],
    on_broken: Callable[[str], object],
    *,
    backend: Backend | None = None,
    background: tuple[int, int, int] | None = (0, 0, 0),
    invert_masks: bool = False,
) -> ImageSet:
    """As load_images, but images and masks are decoded on each access, in the accessing thread.

    on_broken: called with "name: reason" for photographs that are damaged or were replaced since their first access
    (then black and fully masked), and those with non-finite pixels; beyond the first few, with their number, when it is
    a power of ten. Raises SceneError if the last access to every one of several photographs failed.
    """
    decode = _Decoder(views, Loader(backend, background, invert_masks), on_broken)
    return ImageSet(list(views), _Part(len(views), decode.image), _Part(len(views), decode.mask), [])


class _Decoder:
    """Image and mask of a photograph from one decoding; thread-safe."""

    def __init__(self, views: Sequence[View], loader: Loader, on_broken: Callable[[str], object]) -> None:
        self.views, self.loader, self.on_broken = views, loader, on_broken
        self._last = threading.local()
        self._reported: set[int] = set()
        self._broken: set[int] = set()
        self._files: dict[int, list[str]] = {}

    def image(self, index: int) -> np.ndarray:
        """The image; keeps the mask for the next access."""
        self._last.kept = index, self._decoded(index)
        return self._last.kept[1][0]

    def mask(self, index: int) -> np.ndarray | None:
        kept, self._last.kept = getattr(self._last, "kept", None), None
        return (kept[1] if kept and kept[0] == index else self._decoded(index))[1]

    def _decoded(self, index: int) -> Pixels:
        view = self.views[index]
        is_replaced = self._is_replaced(index)
        result = "it was replaced while it was in use; restore it" if is_replaced else self.loader.load(view)
        if not isinstance(result, str):
            self._broken.discard(index)
            if view.name in self.loader.bad_pixels:
                self._report_broken(index, f"{self.loader.bad_pixels[view.name]:,} pixels that are not finite")
            return result
        self._report_broken(index, result)
        self._broken.add(index)
        if len(self._broken) == len(self.views) > 1:  # for example an unmounted disk: there is nothing to train on
            raise SceneError(f"none of the {len(self.views):,} photographs can be read ({view.name}: {result})")
        return np.zeros((view.height, view.width, 3), np.uint8), np.zeros((view.height, view.width), np.uint8)

    def _is_replaced(self, index: int) -> bool:
        """Whether the files of a view are readable but have changed since the first access."""
        view = self.views[index]
        files = [fingerprint(path) for path in (view.path, view.mask) if path is not None]
        return UNREADABLE not in files and files != self._files.setdefault(index, files)

    def _report_broken(self, index: int, what: str) -> None:
        if index in self._reported:
            return
        self._reported.add(index)
        count, line = len(self._reported), f"{self.views[index].name}: {what}"
        if count <= _SHOWN:
            self.on_broken(line)
        elif str(count).strip("0") == "1":
            self.on_broken(f"{line}; {count:,} photographs so far")


class _Part(Sequence[Any]):
    """Sequence of the images, or of the masks, of a decoder."""

    def __init__(self, count: int, get: Callable[[int], Any]) -> None:
        self._count, self._get = count, get

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._get(index)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))
