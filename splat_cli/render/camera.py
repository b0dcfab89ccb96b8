"""The camera table in device memory: one struct per view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from splat_cli.device import Backend
from splat_cli.scene.view import View

TILE = 16  # px, as in cuda_src/common.cuh

# Mirrors `struct Camera` in cuda_src/common.cuh.
CAMERA_DTYPE = np.dtype([
    ("w2c", np.float32, 12), ("position", np.float32, 3),
    ("fx", np.float32), ("fy", np.float32), ("cx", np.float32), ("cy", np.float32),
    ("width", np.int32), ("height", np.int32), ("tiles_x", np.int32), ("tiles_y", np.int32), ("num_pixels", np.int32),
    ("photo", np.uint64), ("mask", np.uint64),
])  # fmt: skip


assert CAMERA_DTYPE.fields is not None
_SHOWN = CAMERA_DTYPE.fields["num_pixels"][1]  # bytes; from there on, a row says what the camera took


class CameraTable:
    """Cameras of `views` on the device, with the photographs they took if there are any.

    photos: uint8 [H, W, 3] device arrays, one a view, or none.  masks: uint8 [H, W] device arrays or None, one a view.
    The arrays are kept alive, since the table holds their addresses.
    """

    def __init__(
        self, backend: Backend, views: Sequence[View], photos: Sequence[Any] = (), masks: Sequence[Any] = ()
    ) -> None:
        self.backend, self.views = backend, list(views)
        self.photos, self.masks = list(photos), list(masks)
        rows = np.zeros(len(self.views), CAMERA_DTYPE)
        for i, view in enumerate(self.views):
            rows[i] = _camera_row(view)
            if self.photos:
                rows[i]["photo"] = backend.address(self.photos[i])
            if self.masks and self.masks[i] is not None:
                rows[i]["mask"] = backend.address(self.masks[i])
                rows[i]["num_pixels"] = max(int((self.masks[i] > 0).sum()), 1)
        self.array = backend.upload(rows.view(np.uint8).reshape(len(rows), CAMERA_DTYPE.itemsize))
        self.max_width = max(view.width for view in self.views)
        self.max_height = max(view.height for view in self.views)
        self.max_tiles = max(int(row["tiles_x"]) * int(row["tiles_y"]) for row in rows)
        self.max_pixels = max(view.width * view.height for view in self.views)

    def show(self, photographs: dict[int, tuple[Any, Any, int]]) -> None:
        """From now on, these views have these photographs, masks or None, and numbers of pixels that count.

        In stream order, like a launch; the rest of a camera's row stays as it is on the device. The arrays are for the
        caller to keep alive.
        """
        rows = np.zeros(len(photographs), CAMERA_DTYPE)
        for row, (photo, mask, num_pixels) in zip(rows, photographs.values(), strict=True):
            row["photo"], row["num_pixels"] = self.backend.address(photo), max(num_pixels, 1)
            row["mask"] = 0 if mask is None else self.backend.address(mask)
        changed = rows.view(np.uint8).reshape(len(rows), CAMERA_DTYPE.itemsize)[:, _SHOWN:]
        self.array[self.backend.upload(np.array(list(photographs))), _SHOWN:] = self.backend.upload(changed)


def _camera_row(view: View) -> np.ndarray:
    row = np.zeros((), CAMERA_DTYPE)
    row["w2c"] = view.w2c[:3].reshape(12)
    row["position"] = -np.linalg.solve(view.w2c[:3, :3], view.w2c[:3, 3])
    for name in ("fx", "fy", "cx", "cy", "width", "height"):
        row[name] = getattr(view, name)
    row["tiles_x"], row["tiles_y"] = -(-view.width // TILE), -(-view.height // TILE)
    row["num_pixels"] = view.width * view.height
    return row
