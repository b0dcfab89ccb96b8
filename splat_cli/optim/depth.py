"""Depth supervision by the dataset's points: host side of cuda_src/optim/depth.cu."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.device import Backend
from splat_cli.device.compiled_units import Unit
from splat_cli.device.memory_cost import MemoryCost
from splat_cli.gaussians.splats import Splats
from splat_cli.optim.auxiliary_model import AuxiliaryModel, TrainingSetup
from splat_cli.optim.per_view import Decay
from splat_cli.render.blend import blend, blend_backward
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import SPLAT_SUMS
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.observations import Observations, observe
from splat_cli.scene.view import View

THREADS = 256


class DepthSupervision(AuxiliaryModel):
    """L1 loss of blended inverse depths against those of the dataset's points, relative to their mean.

    weight: in the loss. points: float32 [P, 3]. The backward pass blends inverse depths into the rasterizer's picture,
    which is overwritten.
    """

    def __init__(
        self, backend: Backend, observations: Observations, weight: Decay, points: np.ndarray | None = None
    ) -> None:
        self.backend, self.weight, self.points = backend, weight, points
        self._supervise_by(observations)
        self.resize(0)

    def _supervise_by(self, observations: Observations) -> None:
        backend = self.backend
        begins, inverse = observations.begins, observations.inverse_depths
        totals = np.array([inverse[a:b].sum(dtype=np.float64) for a, b in itertools.pairwise(begins)])
        self.begins = backend.upload(begins)
        self.pixels, self.targets = backend.upload(observations.pixels), backend.upload(inverse)
        self.scales = backend.upload((1 / np.maximum(totals, 1e-12)).astype(np.float32))
        self.most_points = int(np.diff(begins).max())

    @staticmethod
    def enabled(config: TrainConfig) -> bool:
        return config.depth_weight > 0

    @staticmethod
    def kernels(config: TrainConfig) -> list[Unit]:
        return [("optim/depth", {})]

    @classmethod
    def make(cls, setup: TrainingSetup) -> DepthSupervision | None:
        """See AuxiliaryModel.make: None without points in the scene."""
        config = setup.config
        if setup.points is None:
            return None
        weight = Decay(config.depth_weight, config.depth_weight / 100, config.steps)
        return cls(setup.backend, observe(setup.cameras.current_views, setup.points), weight, setup.points)

    def set_views(self, views: Sequence[View]) -> None:
        """See AuxiliaryModel.set_views."""
        if self.points is not None:
            self._supervise_by(observe(views, self.points))

    @staticmethod
    def cost(config: ResolvedConfig, num_views: int) -> MemoryCost:
        return MemoryCost(per_splat=4 * (4 + SPLAT_SUMS + 3))

    def position_gradients(self, capacity: int) -> Any:
        """See AuxiliaryModel.position_gradients."""
        if self._d_means.shape[1] != capacity:
            self.resize(capacity)
        return self._d_means

    def resize(self, capacity: int) -> None:
        """Allocate buffers for `capacity` splats."""
        empty = self.backend.xp.empty
        self.values, self.d_values = empty((capacity, 4), "float32"), empty((capacity, SPLAT_SUMS), "float32")
        self._d_means = empty((3, capacity), "float32")

    def accumulate(self, splats: Splats, state: IterState, rasterizer: Rasterizer, d_means: Any | None) -> None:
        """Add gradients to projection.d_splats and d_means, or write the latter to an own buffer.

        Must follow the backward pass of colours; overwrites the rasterizer's picture.
        """
        cameras, projection, picture = rasterizer.cameras, rasterizer.projection, rasterizer.picture
        capacity = len(projection.depths)
        by_splat, pixels = (-(-capacity // THREADS),), (-(-cameras.extent.pixels // THREADS),)
        self._launch("inverse_depths", by_splat, state.array, projection.depths, self.values, self.d_values)
        of_depth = dataclasses.replace(projection, colors=self.values, d_splats=self.d_values)
        listed = dataclasses.replace(picture, segments=None)  # keeps those of the colours: the same
        blend(cameras, state, of_depth, rasterizer.tiles, listed)
        self._launch("clear_depth", pixels, cameras.array, state.array, picture.final_T, picture.image, picture.d_image)
        weight = self.weight
        self._launch(
            "depth_loss", (max(-(-self.most_points // THREADS), 1),),
            state.array, self.begins, self.pixels, self.targets, self.scales, weight.first, weight.last, weight.steps,
            picture.image, picture.d_image,
        )  # fmt: skip
        blend_backward(cameras, state, of_depth, rasterizer.tiles, picture, absgrad=False)
        self._launch(
            "depth_backward", by_splat,
            cameras.array, state.array, capacity, int(d_means is not None), projection.depths, self.d_values,
            projection.d_splats, self._d_means if d_means is None else d_means,
        )  # fmt: skip

    def _launch(self, name: str, blocks: tuple[int], *arguments: Any) -> None:
        self.backend.kernel("optim/depth", name)(blocks, (THREADS,), *arguments)
