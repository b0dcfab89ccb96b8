"""A second blend of a view: values of splats in place of colours, for losses on what is blended from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from splat_cli.device import Backend
from splat_cli.device.launch import ceil_div
from splat_cli.render.blend import Picture, blend, blend_backward
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import SPLAT_SUMS
from splat_cli.render.rasterizer import Rasterizer

THREADS = 256


class BlendedValues:
    """values: float32 [capacity, 4], of which three are blended. d_values: their gradients, rows of d_splats."""

    bytes_per_splat = 4 * (4 + SPLAT_SUMS)

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._allocate(0)

    def resize(self, capacity: int) -> None:
        """Make room for `capacity` splats; the buffers stay if they have it."""
        if len(self.values) != capacity:
            self._allocate(capacity)

    def differentiate(self, state: IterState, rasterizer: Rasterizer, loss: Callable[[Picture], None]) -> None:
        """Queue the blend of `values`, `loss`, and the backward pass to `d_values`, which are zero before.

        loss: queues the loss of picture.image and writes picture.d_image, which is zero. Must follow the backward pass
        of colours; overwrites the rasterizer's picture.
        """
        cameras, tiles, picture = rasterizer.cameras, rasterizer.tiles, rasterizer.picture
        projection = dataclasses.replace(rasterizer.projection, colors=self.values, d_splats=self.d_values)
        listed = dataclasses.replace(picture, segments=None)  # keeps those of the colours: the same
        blend(cameras, state, projection, tiles, listed)
        self.backend.kernel("optim/depth", "clear_depth")(
            (ceil_div(cameras.extent.pixels, THREADS),), (THREADS,),
            cameras.array, state.array, picture.final_T, picture.image, picture.d_image,
        )  # fmt: skip
        loss(picture)
        blend_backward(cameras, state, projection, tiles, picture, absgrad=False)

    def _allocate(self, capacity: int) -> None:
        empty = self.backend.xp.empty
        self.values, self.d_values = empty((capacity, 4), "float32"), empty((capacity, SPLAT_SUMS), "float32")
