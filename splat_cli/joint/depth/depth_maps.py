"""Depth maps as targets of depth supervision: host side of cuda_src/optim/depth_maps.cu."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from splat_cli.device import Backend, DeviceArray, Kernel
from splat_cli.device.launch import launch
from splat_cli.joint.per_view import SUM_BLOCKS, SUM_THREADS, Decay
from splat_cli.render.blend import Picture
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.scene.depth_maps import DepthMaps
from splat_cli.scene.view import View

FILE = "optim/depth_maps"
PASSES = 3  # least-squares fits of scale and shift; from the second on, weighted by the previous residuals
_NUM_SUMS = 7  # as in the kernel

# Mirrors `struct DepthMap` in cuda_src/optim/depth_maps.cu.
DEPTH_MAP_DTYPE = np.dtype([
    ("values", np.uint64), ("weights", np.uint64), ("width", np.int32), ("height", np.int32),
    ("scale", np.float32), ("relative", np.int32),
])  # fmt: skip


class MapTargets:
    """Depth maps on the device, for all resolutions of training, because maps are sampled at the centres of pixels.

    fit: float32 [3] of the last view: scale and shift of its map, and the divisor of the loss.
    """

    def __init__(self, backend: Backend, depth_maps: DepthMaps) -> None:
        self.backend = backend
        self.passes = PASSES if any(depth_map and depth_map.relative for depth_map in depth_maps.maps) else 1
        self._kept: list[DeviceArray] = []  # keeps the arrays alive, because the table holds their addresses
        rows = np.zeros(len(depth_maps.maps), DEPTH_MAP_DTYPE)
        for row, depth_map in zip(rows, depth_maps.maps, strict=True):
            if depth_map is not None:
                row["values"] = self._address(depth_map.values.view(np.uint16))
                row["weights"] = 0 if depth_map.weights is None else self._address(depth_map.weights)
                row["height"], row["width"] = depth_map.values.shape
                row["scale"], row["relative"] = depth_map.scale, depth_map.relative
        self.table = backend.upload(rows.view(np.uint8).reshape(len(rows), DEPTH_MAP_DTYPE.itemsize))
        self.rows = backend.xp.empty((SUM_BLOCKS[backend.name], _NUM_SUMS), "float32")
        self.fit = backend.xp.zeros(3, "float32")

    def _address(self, array: np.ndarray) -> int:
        self._kept.append(self.backend.upload(np.ascontiguousarray(array)))
        return self.backend.address(self._kept[-1])

    def set_views(self, views: Sequence[View]) -> None:
        """Does nothing: maps are sampled at any resolution."""

    def launch(self, cameras: CameraTable, state: IterState, picture: Picture, weight: Decay) -> None:
        """See DepthTargets.launch."""
        block, inputs = (SUM_THREADS[self.backend.name],), (cameras.array, state.array, self.table, self.fit)
        for number in range(self.passes):
            self._kernel("sum_depth_map")((len(self.rows),), block, *inputs, int(number > 0), picture.image, self.rows)
            self._kernel("fit_depth_map")((1,), block, state.array, self.table, self.rows, len(self.rows), self.fit)
        pixels, images = cameras.extent.pixels, (picture.image, picture.d_image)
        launch(self.backend, FILE, "depth_map_loss", pixels, *inputs, *weight, *images)

    def _kernel(self, name: str) -> Kernel:
        return self.backend.kernel(FILE, name)
