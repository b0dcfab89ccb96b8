"""Contribution of each splat to given views, in pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from splat_cli.device import Backend, DeviceArray
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.view import View


def view_contributions(backend: Backend, splats: SplatArrays, views: Sequence[View]) -> Iterator[DeviceArray]:
    """Blending weight of every splat, summed over the pixels of each view: an iterator of device arrays float32 [N].

    Rendered with antialiasing if the splats were trained with it.
    """
    if len(splats) == 0:
        yield from (backend.xp.zeros(0, "float32") for _ in views)
        return
    renderer = ViewRenderer(backend, Splats.from_arrays(backend, splats), views, splats.antialiased)
    for index in range(len(views)):
        renderer.forward(index)
        yield last_contributions(renderer)


def last_contributions(renderer: ViewRenderer) -> DeviceArray:
    """Blending weight of every splat, summed over the pixels of the last rendered view: device array float32 [num]."""
    xp = renderer.backend.xp
    scores = xp.zeros((renderer.splats.capacity, 2), "float32")
    renderer.rasterizer.score(renderer.state, xp.zeros(3 * renderer.cameras.max_pixels, "float32"), scores)
    return scores[: renderer.splats.num, 0]


def contributions(backend: Backend, splats: SplatArrays, views: Sequence[View]) -> np.ndarray:
    """Mean of `view_contributions` over the views, float32 [N]; density control uses the same measure."""
    return backend.download(sum(view_contributions(backend, splats, views))) / np.float32(len(views))
