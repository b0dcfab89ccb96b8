"""The camera table in device memory: one struct per view."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from splat_cli.device import Backend, DeviceArray
from splat_cli.device.launch import ceil_div
from splat_cli.scene.view import View

TILE = 16  # px, as in cuda_src/common.cuh

DeviceImage = tuple[DeviceArray, DeviceArray, int]  # photograph, mask or None, number of unmasked pixels

# Mirrors `struct Camera` in cuda_src/common.cuh.
CAMERA_DTYPE = np.dtype([
    ("w2c", np.float32, 12), ("position", np.float32, 3),
    ("fx", np.float32), ("fy", np.float32), ("cx", np.float32), ("cy", np.float32),
    ("k1", np.float32), ("k2", np.float32),
    ("width", np.int32), ("height", np.int32), ("tiles_x", np.int32), ("tiles_y", np.int32), ("num_pixels", np.int32),
    ("photo", np.uint64), ("mask", np.uint64),
])  # fmt: skip


assert CAMERA_DTYPE.fields is not None
_INTRINSICS = CAMERA_DTYPE.fields["fx"][1]  # offset in bytes; the pose comes before
_IMAGE_FIELDS = CAMERA_DTYPE.fields["num_pixels"][1]  # offset in bytes; the photograph's fields follow


@dataclass(frozen=True)
class ImageExtent:
    """Upper bounds of the sizes of images: width and height in pixels, numbers of tiles and of pixels."""

    width: int
    height: int
    tiles: int
    pixels: int

    @classmethod
    def of(cls, views: Sequence[View]) -> Self:
        """Upper bounds over the images of these views."""
        return cls(
            width=max(view.width for view in views),
            height=max(view.height for view in views),
            tiles=max(math.prod(_num_tiles(view)) for view in views),
            pixels=max(view.width * view.height for view in views),
        )


class CameraTable:
    """Cameras of `views` on the device, with the photographs they took if there are any.

    photos: uint8 [H, W, 3] device arrays, one per view, or empty. masks: uint8 [H, W] or None, one per view, or empty.
    The arrays are kept alive, because the table holds their addresses. views: at full resolution, which determines
    buffer sizes (max_tiles, max_pixels); current_views: as last resized, with their `extent`. radial: whether a view
    has radial distortion or will get it (--refine-distortion). defines: defines of kernels that project splats.
    """

    def __init__(
        self,
        backend: Backend,
        views: Sequence[View],
        photos: Sequence[DeviceArray] = (),
        masks: Sequence[DeviceArray] = (),
    ) -> None:
        self.backend, self.views = backend, list(views)
        self.photos, self.masks = list(photos), list(masks)
        self.current_views, self.extent = self.views, ImageExtent.of(self.views)
        self.radial, self.defines = False, dict[str, int]()
        if any(any(view.radial) for view in self.views):
            self.allow_radial()
        rows = np.zeros(len(self.views), CAMERA_DTYPE)
        for i, view in enumerate(self.views):
            rows[i] = _camera_row(view)
            if self.photos:
                rows[i]["photo"] = backend.address(self.photos[i])
            if self.masks and self.masks[i] is not None:
                rows[i]["mask"] = backend.address(self.masks[i])
                rows[i]["num_pixels"] = max(int((self.masks[i] > 0).sum()), 1)
        self.array = backend.upload(rows.view(np.uint8).reshape(len(rows), CAMERA_DTYPE.itemsize))
        self.max_tiles, self.max_pixels = self.extent.tiles, self.extent.pixels

    def allow_radial(self) -> None:
        """Make kernels consider radial distortion."""
        self.radial, self.defines = True, {"RADIAL_DISTORTION": 1}

    def resize(self, downscale: int, photographs: Mapping[int, DeviceImage]) -> None:
        """Downscale all images by this factor from now on; `photographs`, by index, replace all photographs.

        Poses on the device are unchanged. Waits for the device; captured graphs are out of date.
        """
        self.current_views = [view.downscaled(downscale) for view in self.views]
        self.extent = ImageExtent.of(self.current_views)
        rows = np.array([_camera_row(view) for view in self.current_views])
        self._fill(rows, photographs.items())
        table = self.backend.download(self.array).copy()
        table[:, _INTRINSICS:] = rows.view(np.uint8).reshape(table.shape)[:, _INTRINSICS:]
        self.array.reshape(-1).view(np.uint32)[...] = self.backend.upload(table.reshape(-1).view(np.uint32))

    def set_images(self, photographs: Mapping[int, DeviceImage]) -> None:
        """Set photographs, masks or None, and numbers of unmasked pixels of these views.

        In stream order, like a launch; other fields of the cameras on the device are unchanged. The caller keeps the
        arrays alive.
        """
        rows = np.zeros(len(photographs), CAMERA_DTYPE)
        self._fill(rows, enumerate(photographs.values()))
        changed = rows.view(np.uint8).reshape(len(rows), CAMERA_DTYPE.itemsize)[:, _IMAGE_FIELDS:]
        self.array[self.backend.upload(np.array(list(photographs))), _IMAGE_FIELDS:] = self.backend.upload(changed)

    def _fill(self, rows: np.ndarray, photographs: Iterable[tuple[int, DeviceImage]]) -> None:
        for index, (photo, mask, num_pixels) in photographs:
            rows[index]["photo"], rows[index]["num_pixels"] = self.backend.address(photo), max(num_pixels, 1)
            rows[index]["mask"] = 0 if mask is None else self.backend.address(mask)


def _num_tiles(view: View) -> tuple[int, int]:
    """Columns and rows of tiles."""
    return ceil_div(view.width, TILE), ceil_div(view.height, TILE)


def _camera_row(view: View) -> np.ndarray:
    row = np.zeros((), CAMERA_DTYPE)
    row["w2c"] = view.w2c[:3].reshape(12)
    row["position"] = -np.linalg.solve(view.w2c[:3, :3], view.w2c[:3, 3])
    for name in ("fx", "fy", "cx", "cy", "width", "height"):
        row[name] = getattr(view, name)
    row["k1"], row["k2"] = view.radial
    row["tiles_x"], row["tiles_y"] = _num_tiles(view)
    row["num_pixels"] = view.width * view.height
    return row
