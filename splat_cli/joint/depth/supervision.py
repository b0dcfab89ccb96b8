"""Depth supervision by points or depth maps of the dataset: host side of cuda_src/optim/depth.cu and
depth_maps.cu."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.device import Backend, DeviceArray, Kernel, MemoryCost, Unit, launch
from splat_cli.gaussians.splats import Splats
from splat_cli.joint.joint_model import SUM_BLOCKS, SUM_THREADS, Decay, JointInputs, JointModel
from splat_cli.render.blend import RenderBuffers, blend, blend_backward
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import SPLAT_SUMS
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.depth_maps import DepthMaps
from splat_cli.scene.points.observations import Observations, observe
from splat_cli.scene.view import View

FILE, MAPS_FILE = "optim/depth", "optim/depth_maps"
PASSES = 3  # least-squares fits of scale and shift; from the second on, weighted by the previous residuals
_NUM_SUMS = 7  # as in the kernel

# Mirrors `struct DepthMap` in cuda_src/optim/depth_maps.cu.
DEPTH_MAP_DTYPE = np.dtype([
    ("values", np.uint64), ("weights", np.uint64), ("width", np.int32), ("height", np.int32),
    ("scale", np.float32), ("relative", np.int32),
])  # fmt: skip


class DepthTargets(Protocol):
    """Targets for the depths of the rendered view."""

    def set_views(self, views: Sequence[View]) -> None:
        """Adapt to a new resolution of the training views."""

    def launch(self, cameras: CameraTable, state: IterState, rendered: RenderBuffers, weight: Decay) -> None:
        """Queue the loss of rendered.image (blended inverse depths, depths, opacities): write d_image (zero before)."""


class PointTargets(DepthTargets):
    """Inverse depths of points, float32 [P, 3], where views see them; the loss is relative to their mean."""

    def __init__(
        self, backend: Backend, observations: Observations, points: np.ndarray | Observations | None = None
    ) -> None:
        self.backend, self.points = backend, points
        self._upload(observations)

    def _upload(self, observations: Observations) -> None:
        backend = self.backend
        begins, inverse = observations.begins, observations.inverse_depths
        totals = np.array([inverse[a:b].sum(dtype=np.float64) for a, b in itertools.pairwise(begins)])
        self.begins = backend.upload(begins)
        self.pixels, self.targets = backend.upload(observations.pixels), backend.upload(inverse)
        self.scales = backend.upload((1 / np.maximum(totals, 1e-12)).astype(np.float32))
        self.most_points = int(np.diff(begins).max())

    def set_views(self, views: Sequence[View]) -> None:
        if self.points is not None:
            self._upload(observe(views, self.points))

    def launch(self, cameras: CameraTable, state: IterState, rendered: RenderBuffers, weight: Decay) -> None:
        points, images = (self.begins, self.pixels, self.targets, self.scales), (rendered.image, rendered.d_image)
        launch(self.backend, FILE, "depth_loss", max(self.most_points, 1), state.array, *points, *weight, *images)


class MapTargets(DepthTargets):
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

    def launch(self, cameras: CameraTable, state: IterState, rendered: RenderBuffers, weight: Decay) -> None:
        block, inputs = (SUM_THREADS[self.backend.name],), (cameras.array, state.array, self.table, self.fit)
        for number in range(self.passes):
            self._kernel("sum_depth_map")((len(self.rows),), block, *inputs, int(number > 0), rendered.image, self.rows)
            self._kernel("fit_depth_map")((1,), block, state.array, self.table, self.rows, len(self.rows), self.fit)
        pixels, images = cameras.extent.pixels, (rendered.image, rendered.d_image)
        launch(self.backend, MAPS_FILE, "depth_map_loss", pixels, *inputs, *weight, *images)

    def _kernel(self, name: str) -> Kernel:
        return self.backend.kernel(MAPS_FILE, name)


class BlendedValues:
    """Blends three other values per splat instead of its colour.

    values: float32 [capacity, 4], the last column is unused. d_values: their gradients, rows of d_splats.
    """

    bytes_per_splat = 4 * (4 + SPLAT_SUMS)

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._allocate(0)

    def resize(self, capacity: int) -> None:
        """Make room for `capacity` splats; keeps buffers of that size."""
        if len(self.values) != capacity:
            self._allocate(capacity)

    def differentiate(self, state: IterState, rasterizer: Rasterizer, loss: Callable[[RenderBuffers], None]) -> None:
        """Queue the blend of `values`, `loss`, and the backward pass to `d_values` (zero before).

        loss: queues the loss of rendered.image and writes rendered.d_image, zero before. Must follow the backward pass
        of colours; overwrites the rasterizer's rendered image.
        """
        cameras, tiles, rendered = rasterizer.cameras, rasterizer.tiles, rasterizer.rendered
        projection = dataclasses.replace(rasterizer.projection, colors=self.values, d_splats=self.d_values)
        listed = dataclasses.replace(rendered, segments=None)  # keep the segments of the colours, which are the same
        blend(cameras, state, projection, tiles, listed)
        outputs = rendered.final_T, rendered.image, rendered.d_image
        launch(self.backend, FILE, "clear_depth", cameras.extent.pixels, cameras.array, state.array, *outputs)
        loss(rendered)
        blend_backward(cameras, state, projection, tiles, rendered, absgrad=False)

    def _allocate(self, capacity: int) -> None:
        empty = self.backend.xp.empty
        self.values, self.d_values = empty((capacity, 4), "float32"), empty((capacity, SPLAT_SUMS), "float32")


class DepthSupervision(JointModel):
    """Loss of the rendered depths against `targets`.

    weight: weight in the loss. The backward pass blends depths and overwrites the rasterizer's rendered image.
    """

    def __init__(self, backend: Backend, targets: DepthTargets, weight: Decay) -> None:
        self.backend, self.targets, self.weight = backend, targets, weight
        self.blended = BlendedValues(backend)

    @staticmethod
    def enabled(config: TrainConfig) -> bool:
        return bool(config.depth_weight)

    @staticmethod
    def kernels(config: TrainConfig) -> list[Unit]:
        return [("optim/depth", {})]

    @staticmethod
    def moves_splats(config: TrainConfig) -> bool:
        return True

    @classmethod
    def make(cls, inputs: JointInputs) -> DepthSupervision | None:
        """See JointModel.make: uses depth maps if available, else points; None without either."""
        config, backend = inputs.config, inputs.backend
        weight = Decay(config.depth_weight, config.depth_weight / 100, config.steps)
        if inputs.depth_maps is not None:
            return cls(backend, MapTargets(backend, inputs.depth_maps), weight)
        if inputs.points is None:
            return None
        seen = observe(inputs.cameras.current_views, inputs.points)
        return cls(backend, PointTargets(backend, seen, inputs.points), weight)

    def set_views(self, views: Sequence[View]) -> None:
        self.targets.set_views(views)

    @staticmethod
    def memory_cost(config: ResolvedConfig, num_views: int) -> MemoryCost:
        return MemoryCost(per_splat=BlendedValues.bytes_per_splat)

    def resize(self, capacity: int) -> None:
        self.blended.resize(capacity)

    def accumulate_gradients(self, splats: Splats, state: IterState, rasterizer: Rasterizer) -> None:
        """Add gradients to projection.d_splats, and write projection.d_means.

        Must follow the backward pass of colours; overwrites the rasterizer's rendered image.
        """
        cameras, projection, blended = rasterizer.cameras, rasterizer.projection, self.blended
        capacity = len(projection.depths)
        values = blended.values, blended.d_values
        launch(self.backend, FILE, "inverse_depths", capacity, state.array, projection.depths, *values)
        blended.differentiate(
            state, rasterizer, lambda rendered: self.targets.launch(cameras, state, rendered, self.weight)
        )
        inputs = cameras.array, state.array, capacity, projection.depths, blended.d_values
        launch(self.backend, FILE, "depth_backward", capacity, *inputs, projection.d_splats, projection.d_means)
