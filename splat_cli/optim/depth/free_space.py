"""Penalty of opacity in free space: host side of cuda_src/optim/free_space.cu."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.device import Backend
from splat_cli.device.compiled_units import Unit
from splat_cli.device.memory_cost import MemoryCost
from splat_cli.gaussians.splats import Splats
from splat_cli.optim.auxiliary_model import AuxiliaryModel, TrainingSetup
from splat_cli.render.blend import blend, blend_backward
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import SPLAT_SUMS
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.points.observations import Observations, observe
from splat_cli.scene.view import View

THREADS = 256
LAYERS = 3  # as in cuda_src/optim/free_space.cu


class FreeSpaceLoss(AuxiliaryModel):
    """Mean squared opacity in front of the dataset's points, as the views see them.

    weight: in the loss. points: float32 [P, 3]. Each step measures up to three depths of its view. The backward pass
    blends opacities into the rasterizer's picture, which is overwritten.
    """

    def __init__(self, backend: Backend, views: Sequence[View], points: np.ndarray, weight: float) -> None:
        self.backend, self.points, self.weight = backend, points, weight
        self.layers = backend.xp.zeros(LAYERS, "float32")
        self.set_views(views)
        self.resize(0)

    @staticmethod
    def enabled(config: TrainConfig) -> bool:
        return config.free_space > 0

    @staticmethod
    def kernels(config: TrainConfig) -> list[Unit]:
        return [("optim/free_space", {}), ("optim/depth", {})]

    @classmethod
    def make(cls, setup: TrainingSetup) -> FreeSpaceLoss | None:
        """See AuxiliaryModel.make: None without points in the scene."""
        if setup.points is None:
            return None
        return cls(setup.backend, setup.cameras.current_views, setup.points, setup.config.free_space)

    @staticmethod
    def cost(config: ResolvedConfig, num_views: int) -> MemoryCost:
        return MemoryCost(per_splat=4 * (4 + SPLAT_SUMS))

    def set_views(self, views: Sequence[View]) -> None:
        """See AuxiliaryModel.set_views."""
        self.observe(observe(views, self.points))

    def observe(self, seen: Observations) -> None:
        """Take these points as seen."""
        upload = self.backend.upload
        self.begins, self.pixels, self.inverse_depths = map(upload, (seen.begins, seen.pixels, seen.inverse_depths))
        self.most_points = int(np.diff(seen.begins).max())

    def resize(self, capacity: int) -> None:
        """Allocate buffers for `capacity` splats."""
        empty = self.backend.xp.empty
        self.values, self.d_values = empty((capacity, 4), "float32"), empty((capacity, SPLAT_SUMS), "float32")

    def accumulate(self, splats: Splats, state: IterState, rasterizer: Rasterizer, d_means: Any | None) -> None:
        """Add gradients to projection.d_splats. Must follow the backward pass of colours."""
        cameras, projection, picture = rasterizer.cameras, rasterizer.projection, rasterizer.picture
        capacity = len(projection.depths)
        if len(self.values) != capacity:
            self.resize(capacity)
        by_splat, pixels = -(-capacity // THREADS), -(-cameras.extent.pixels // THREADS)
        self._launch("draw_layers", 1, state.array, self.begins, self.inverse_depths, self.layers)
        self._launch(
            "nearer_than_layers", by_splat, state.array, projection.depths, self.layers, self.values, self.d_values
        )
        of_layers = dataclasses.replace(projection, colors=self.values, d_splats=self.d_values)
        blend(cameras, state, of_layers, rasterizer.tiles, dataclasses.replace(picture, segments=None))
        self.backend.kernel("optim/depth", "clear_depth")(
            (pixels,), (THREADS,), cameras.array, state.array, picture.final_T, picture.image, picture.d_image
        )
        self._launch(
            "free_space_loss", max(-(-self.most_points // THREADS), 1), cameras.array, state.array, self.begins,
            self.pixels, self.inverse_depths, self.layers, float(self.weight), picture.image, picture.d_image,
        )  # fmt: skip
        blend_backward(cameras, state, of_layers, rasterizer.tiles, picture, absgrad=False)
        self._launch(
            "free_space_backward", by_splat, state.array, projection.depths, self.d_values, projection.d_splats
        )

    def _launch(self, name: str, blocks: int, *arguments: Any) -> None:
        self.backend.kernel("optim/free_space", name)((blocks,), (THREADS,), *arguments)
