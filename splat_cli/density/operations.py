"""What strategies do to splats: relocation, splits, resets. The host side of cuda_src/density/refine.cu.

Indices of splats are int64 [K] on the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from splat_cli.gaussians.splats import OPACITY
from splat_cli.optim.columns import launch_shape
from splat_cli.optim.model import Model

FILE = "density/refine"


def relocate(model: Model, parents: Any, slots: Any, min_opacity: float) -> None:
    """Put a copy of the splat parents[k], which may repeat, in the place slots[k]; all start with fresh moments.

    A parent and its copies together look like the parent before: 3DGS-MCMC (Kheradmand et al. 2024), eq. 9.
    min_opacity: of each afterwards.
    """
    backend, splats, count = model.backend, model.splats, len(parents)
    if count == 0:
        return
    copies = backend.xp.zeros(model.num, "int32")
    backend.kernel(FILE, "count_copies")(*launch_shape(count), parents, count, copies)
    backend.kernel(FILE, "relocate")(
        *launch_shape(model.num), copies, *splats.params.shape, model.num, float(min_opacity), splats.params,
        model.moments.first, model.moments.second,
    )  # fmt: skip
    model.copy(parents, slots)


def split_long_axis(model: Model, parents: Any, slots: Any) -> None:
    """Split the different splats `parents` in two along their longest axes: one half stays, one goes to its slot."""
    if len(parents):
        model.copy(parents, slots)
        model.clear_moments(parents)
        model.backend.kernel(FILE, "split_long_axis")(
            *launch_shape(len(parents)), parents, slots, len(parents), model.splats.capacity, model.splats.params
        )


def split_random(model: Model, parents: Any, slots: Any, random: np.random.Generator) -> None:
    """Two smaller splats for each of the different splats `parents`: one in its place, one in its slot."""
    if len(parents):
        normals = model.backend.upload(random.standard_normal((3, 2 * len(parents)), np.float32))
        model.copy(parents, slots)
        model.clear_moments(parents)
        model.backend.kernel(FILE, "split_random")(
            *launch_shape(len(parents)), parents, slots, normals, len(parents), model.splats.capacity,
            model.splats.params,
        )  # fmt: skip


def reset_opacities(model: Model, max_opacity: float) -> None:
    """Lower all opacities to at most max_opacity, with fresh moments."""
    max_logit = float(np.log(max_opacity / (1 - max_opacity)))
    rows = (planes[OPACITY] for planes in (model.splats.params, model.moments.first, model.moments.second))
    model.backend.kernel(FILE, "limit_opacities")(*launch_shape(model.num), model.num, max_logit, *rows)


def limit_scales(model: Model, min_scale: float) -> None:
    """Make no axis of a splat shorter than min_scale, world units."""
    model.backend.kernel(FILE, "limit_scales")(
        *launch_shape(model.num), model.splats.capacity, model.num, float(np.log(min_scale)), model.splats.params
    )
