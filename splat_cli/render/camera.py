"""The camera table in device memory: one struct per view."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from splat_cli.device import Backend, DeviceArray, ceil_div
from splat_cli.render.iter_state import IterState
from splat_cli.scene.lens.distortion import NUM_COEFFICIENTS, Equirectangular, Polynomial
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


# Mirrors `struct LensModel` in cuda_src/lens/lens.cuh.
LENS_MODEL_DTYPE = np.dtype([
    ("c", np.float32, NUM_COEFFICIENTS), ("family", np.int32), ("terms", np.int32),
    ("sin_max", np.float32), ("cos_max", np.float32), ("max_angle", np.float32),
    ("max_radius", np.float32), ("slope", np.float32), ("cull_cos", np.float32),
    ("rotation", np.float32, 3), ("shift", np.float32, 3),
])  # fmt: skip

assert CAMERA_DTYPE.fields is not None
_INTRINSICS = CAMERA_DTYPE.fields["fx"][1]  # offset in bytes; the pose comes before
_LENS_FIELDS = CAMERA_DTYPE.fields["k1"][1]  # with lenses, k1 and k2 hold an address
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
    has radial distortion or will get it (--refine-distortion). lenses: `struct LensModel` [num_views] if a view keeps
    its lens, else None. defines: defines of kernels that project splats. fetch_photograph: queues a copy of the
    photograph of the state's view to the address that the table holds, if photographs are in host memory.
    """

    fetch_photograph: Callable[[IterState], None] | None = None

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
        self.radial, self.lenses = False, self._upload_lenses()
        self.defines = self.lens_defines
        if any(any(view.radial) for view in self.views):
            self.allow_radial()
        rows = np.zeros(len(self.views), CAMERA_DTYPE)
        for i, view in enumerate(self.views):
            rows[i] = self._row(i, view)
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

    @property
    def lens_defines(self) -> dict[str, int]:
        """Defines of kernels that read lenses."""
        if self.lenses is None:
            return {}
        return {"LENS": 1} | ({"ROLLING_SHUTTER": 1} if any(view.rolling_shutter for view in self.views) else {})

    @property
    def wrap_defines(self) -> dict[str, int]:
        """Defines of kernels that list and blend splats: lenses matter to them only if pictures wrap around."""
        is_spherical = any(isinstance(view.distortion, Equirectangular) for view in self.views)
        return {"LENS": 1} if is_spherical else {}

    def _upload_lenses(self) -> DeviceArray | None:
        if all(view.distortion is None for view in self.views):
            return None
        rows = np.array([_lens_row(view) for view in self.views])
        return self.backend.upload(rows.view(np.uint8).reshape(len(rows), LENS_MODEL_DTYPE.itemsize))

    def _row(self, index: int, view: View) -> np.ndarray:
        row = _camera_row(view)
        if self.lenses is not None:
            address = self.backend.address(self.lenses) + index * LENS_MODEL_DTYPE.itemsize
            row.reshape(1).view(np.uint8)[_LENS_FIELDS : _LENS_FIELDS + 8] = np.array([address], "<u8").view(np.uint8)
        return row

    def resize(self, downscale: int, photographs: Mapping[int, DeviceImage]) -> None:
        """Downscale all images by this factor from now on; `photographs`, by index, replace all photographs.

        Poses on the device are unchanged. Waits for the device; captured graphs are out of date.
        """
        self.current_views = [view.downscaled(downscale) for view in self.views]
        self.extent = ImageExtent.of(self.current_views)
        rows = np.array([self._row(i, view) for i, view in enumerate(self.current_views)])
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


def _lens_row(view: View) -> np.ndarray:
    """The lens of a view; for a view without one, that of a pinhole camera."""
    lens, row, field = view.distortion or Polynomial(), np.zeros((), LENS_MODEL_DTYPE), view.field_of_view
    coefficients = lens.coefficients()
    row["c"][: len(coefficients)] = coefficients
    is_polynomial = isinstance(lens, Polynomial)
    row["family"] = lens.family % 2 if is_polynomial else lens.family
    row["terms"] = _terms(lens) if isinstance(lens, Polynomial) else 0
    row["sin_max"], row["cos_max"] = math.sin(field.angle), math.cos(field.angle)
    row["max_angle"], row["max_radius"], row["slope"] = field.angle, field.radius, field.slope
    if view.rolling_shutter is not None:
        row["rotation"], row["shift"] = view.rolling_shutter.rotation, view.rolling_shutter.shift
    row["cull_cos"] = math.cos(field.cull_angle) if field.cull_angle < math.pi else -2
    return row


def _terms(lens: Polynomial) -> int:
    """TERMS_... of cuda_src/lens/polynomial.cuh."""
    groups = lens.radial[2:], lens.rational, lens.tangential, (*lens.prism, lens.skew), (lens.tangential_last,)
    return sum(1 << bit for bit, coefficients in enumerate(groups) if any(coefficients))


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
