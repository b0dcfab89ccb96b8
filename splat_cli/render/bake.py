"""Splats trained with antialiasing, made to look alike in viewers that know nothing of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.camera import CameraTable
from splat_cli.render.project import Projection, project
from splat_cli.render.step import StepState
from splat_cli.scene.view import View

MAX_VIEWS = 64  # looked at, evenly spread over those there are
MIN_OPACITY = 1e-4


def bake_antialiasing(backend: Backend, splats: SplatArrays, views: Sequence[View]) -> SplatArrays:
    """The splats with the opacity that they have on average in the views, instead of the raw one.

    Mip-Splatting (Yu et al. 2024, sec. 5.2) lowers a small splat's opacity by how much the pixel filter widens it,
    which depends on the distance; a viewer without it shows the raw opacity. Splats that no view sees stay as they are.
    """
    chosen = [views[i] for i in np.unique(np.linspace(0, len(views) - 1, MAX_VIEWS).astype(int))]
    on_device, cameras = Splats.from_arrays(backend, splats), CameraTable(backend, chosen)
    projection = Projection.allocate(backend, on_device.capacity, cameras.max_tiles, training=False)
    state = StepState(backend, num_splats=on_device.num)
    num = len(splats)
    total, count = backend.xp.zeros(num, "float32"), backend.xp.zeros(num, "float32")
    for index in range(len(chosen)):
        for antialias in (False, True):
            state.write(view=index, num_visible=0)
            projection.tile_counts[...] = 0
            project(on_device, cameras, state, antialias, projection)
            seen = projection.depths[:num] > 0
            if antialias:  # unseen now: faded out by the compensation
                total += backend.xp.where(seen, projection.conic_opacity[:num, 3], 0)
            else:
                count += seen
    mean = backend.download(total) / np.maximum(backend.download(count), 1)
    opacities = np.clip(mean, MIN_OPACITY, 1 - 1e-6)
    logits = np.where(backend.download(count) > 0, np.log(opacities / (1 - opacities)), splats.logit_opacities)
    return dataclasses.replace(splats, logit_opacities=logits.astype(np.float32), antialiased=False)
