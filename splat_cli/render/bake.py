"""Splats trained with antialiasing, made to look alike in viewers that know nothing of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.camera import CameraTable
from splat_cli.render.project import Projection, project
from splat_cli.render.step import StepState
from splat_cli.scene.view import View, evenly_spread

MAX_VIEWS = 64  # looked at, evenly spread over those there are
MIN_OPACITY = 1e-4


def bake_antialiasing(backend: Backend, splats: SplatArrays, views: Sequence[View]) -> SplatArrays:
    """The splats with the opacity that they have on average in the views, instead of the raw one.

    Splats that no view sees stay as they are.
    """
    total, count = (backend.download(one) for one in seen_opacities(Splats.from_arrays(backend, splats), views))
    opacities = np.clip(total / np.maximum(count, 1), MIN_OPACITY, 1 - 1e-6)
    logits = np.where(count > 0, np.log(opacities / (1 - opacities)), splats.logit_opacities)
    return dataclasses.replace(splats, logit_opacities=logits.astype(np.float32), antialiased=False)


def seen_opacities(splats: Splats, views: Sequence[View], max_views: int = MAX_VIEWS) -> tuple[Any, Any]:
    """(sum of a splat's opacities in the views that see it, number of these views), float32 [num] on the device.

    Mip-Splatting (Yu et al. 2024, sec. 5.2) lowers a small splat's opacity by how much the pixel filter widens it,
    which depends on the distance; a viewer without it shows the raw opacity. At most `max_views` are looked at.
    """
    backend, num = splats.backend, splats.num
    chosen = evenly_spread(views, max_views)
    cameras = CameraTable(backend, chosen)
    projection = Projection.allocate(backend, splats.capacity, cameras.max_tiles, training=False)
    state = StepState(backend, num_splats=num)
    total, count = backend.xp.zeros(num, "float32"), backend.xp.zeros(num, "float32")
    for index in range(len(chosen)):
        for antialias in (False, True):
            state.write(view=index, num_visible=0)
            projection.tile_counts[...] = 0
            project(splats, cameras, state, antialias, projection)
            seen = projection.depths[:num] > 0
            if antialias:  # unseen now: faded out by the compensation
                total += backend.xp.where(seen, projection.conic_opacity[:num, 3], 0)
            else:
                count += seen
    return total, count
