"""Photographs that are decoded on each access, for datasets larger than memory."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from splat_cli.device import Backend
from splat_cli.errors import SceneError
from splat_cli.scene.images.fingerprint import UNREADABLE, fingerprint
from splat_cli.scene.images.image_set import ImageSet, Loader
from splat_cli.scene.view import View

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
