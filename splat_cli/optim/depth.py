"""Supervision of depth by the scene's points: the host side of cuda_src/optim/depth.cu."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np

from splat_cli.device import Backend
from splat_cli.optim.per_view import Decay
from splat_cli.render.blend import blend, blend_backward
from splat_cli.render.iter_state import IterState
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.observations import Observations

THREADS = 256


class DepthSupervision:
    """Pulls the blended inverse depth to that of the points that a view sees: L1, relative to their mean.

    weight: of this in the loss. `backward` takes a blend of its own, into the rasterizer's picture, which is used up by
    then. d_means: float32 [3, capacity], where it adds the gradients by positions.
    """

    def __init__(self, backend: Backend, observations: Observations, weight: Decay) -> None:
        self.backend, self.weight = backend, weight
        begins, inverse = observations.begins, observations.inverse_depths
        totals = np.array([inverse[a:b].sum(dtype=np.float64) for a, b in itertools.pairwise(begins)])
        self.begins = backend.upload(begins)
        self.pixels, self.targets = backend.upload(observations.pixels), backend.upload(inverse)
        self.scales = backend.upload((1 / np.maximum(totals, 1e-12)).astype(np.float32))
        self.most_points = int(np.diff(begins).max())
        self.resize(0)

    def resize(self, capacity: int) -> None:
        """Make room for `capacity` splats."""
        empty = self.backend.xp.empty
        self.values, self.d_values = empty((capacity, 4), "float32"), empty((capacity, 12), "float32")
        self.d_means = empty((3, capacity), "float32")

    def backward(self, state: IterState, rasterizer: Rasterizer, d_means: Any | None) -> None:
        """Add the gradients to projection.d_splats and to d_means, or write the latter to self.d_means.

        The rasterizer must have gone back from colours to projected splats; its picture is overwritten.
        """
        cameras, projection, picture = rasterizer.cameras, rasterizer.projection, rasterizer.picture
        capacity = len(projection.depths)
        splats, pixels = (-(-capacity // THREADS),), (-(-cameras.max_pixels // THREADS),)
        self._launch("inverse_depths", splats, state.array, projection.depths, self.values, self.d_values)
        of_depth = dataclasses.replace(projection, colors=self.values, d_splats=self.d_values)
        listed = dataclasses.replace(picture, segments=None)  # those of the colours' blend stay: they are the same
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
            "depth_backward", splats,
            cameras.array, state.array, capacity, int(d_means is not None), projection.depths, self.d_values,
            projection.d_splats, self.d_means if d_means is None else d_means,
        )  # fmt: skip

    def _launch(self, name: str, blocks: tuple[int], *arguments: Any) -> None:
        self.backend.kernel("optim/depth", name)(blocks, (THREADS,), *arguments)
