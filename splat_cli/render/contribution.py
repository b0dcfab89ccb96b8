"""How much of the pictures each splat makes up: what may be left out without being missed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.view import View


def contributions(backend: Backend, splats: SplatArrays, views: Sequence[View]) -> np.ndarray:
    """Mean over the views of every splat's blending weight, summed over the picture: float32 [N], pixels a view.

    The same as density control goes by. Rendered with antialiasing where the splats say that they were trained with it.
    """
    if len(splats) == 0:
        return np.zeros(0, np.float32)
    renderer = ViewRenderer(backend, Splats.from_arrays(backend, splats), views, splats.antialiased)
    no_errors = backend.xp.zeros(3 * renderer.cameras.max_pixels, "float32")
    scores = backend.xp.zeros((len(splats), 2), "float32")
    for index in range(len(views)):
        renderer.forward(index)
        renderer.rasterizer.score(renderer.state, no_errors, scores)
    return backend.download(scores[:, 0]) / np.float32(len(views))
