"""Penalty of opacity in free space: host side of cuda_src/optim/free_space.cu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.device import Backend
from splat_cli.device.compiled_units import Unit
from splat_cli.device.memory_cost import MemoryCost
from splat_cli.gaussians.splats import Splats
from splat_cli.optim.auxiliary_model import AuxiliaryModel, TrainingSetup
from splat_cli.optim.depth.blended_values import THREADS, BlendedValues
from splat_cli.render.blend import Picture
from splat_cli.render.iter_state import IterState
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.points.observations import Observations, observe
from splat_cli.scene.view import View

LAYERS = 3  # as in cuda_src/optim/free_space.cu


class FreeSpaceLoss(AuxiliaryModel):
    """Mean squared opacity in front of the dataset's points, as the views see them.

    weight: in the loss. points: float32 [P, 3]. Each step measures up to three depths of its view. The backward pass
    blends opacities into the rasterizer's picture, which is overwritten.
    """

    def __init__(self, backend: Backend, views: Sequence[View], points: np.ndarray, weight: float) -> None:
        self.backend, self.points, self.weight = backend, points, weight
        self.layers = backend.xp.zeros(LAYERS, "float32")
        self.blended = BlendedValues(backend)
        self.set_views(views)

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
        return MemoryCost(per_splat=BlendedValues.bytes_per_splat)

    def set_views(self, views: Sequence[View]) -> None:
        """See AuxiliaryModel.set_views."""
        self.observe(observe(views, self.points))

    def observe(self, seen: Observations) -> None:
        """Take these points as seen."""
        upload = self.backend.upload
        self.begins, self.pixels, self.inverse_depths = map(upload, (seen.begins, seen.pixels, seen.inverse_depths))
        self.most_points = int(np.diff(seen.begins).max())

    def accumulate(self, splats: Splats, state: IterState, rasterizer: Rasterizer, d_means: Any | None) -> None:
        """Add gradients to projection.d_splats. Must follow the backward pass of colours."""
        cameras, projection, blended = rasterizer.cameras, rasterizer.projection, self.blended
        capacity = len(projection.depths)
        blended.resize(capacity)
        by_splat = -(-capacity // THREADS)
        self._launch("draw_layers", 1, state.array, self.begins, self.inverse_depths, self.layers)
        self._launch(
            "nearer_than_layers", by_splat,
            state.array, projection.depths, self.layers, blended.values, blended.d_values,
        )  # fmt: skip

        def loss(picture: Picture) -> None:
            self._launch(
                "free_space_loss", max(-(-self.most_points // THREADS), 1), cameras.array, state.array, self.begins,
                self.pixels, self.inverse_depths, self.layers, float(self.weight), picture.image, picture.d_image,
            )  # fmt: skip

        blended.differentiate(state, rasterizer, loss)
        self._launch(
            "free_space_backward", by_splat, state.array, projection.depths, blended.d_values, projection.d_splats
        )

    def _launch(self, name: str, blocks: int, *arguments: Any) -> None:
        self.backend.kernel("optim/free_space", name)((blocks,), (THREADS,), *arguments)
