"""Relocation, splits and resets (host side of cuda_src/density/refine.cu); splats that no view shows (unseen.cu).

Indices of splats are int64 [K] on the device. A view shows a splat if it gives its colour a non-zero gradient. A splat
that is out of the frame, behind opaque splats, masked or too transparent gets none. `Model.last_seen` is the last step
in which a view showed the splat (project_backward).
"""

from __future__ import annotations

import math

import numpy as np

from splat_cli.config import ResolvedConfig
from splat_cli.device import DeviceArray, ceil_div, launch
from splat_cli.gaussians.splats import OPACITY
from splat_cli.model.columns import partition
from splat_cli.model.model import Model

FILE = "density/refine"


def relocate(model: Model, parents: DeviceArray, slots: DeviceArray, min_opacity: float) -> None:
    """Copy splats parents[k], with repetition, to slots[k]; parents and copies get zero moments.

    Parent and copies together render as the parent did: 3DGS-MCMC (Kheradmand et al. 2024), eq. 9. min_opacity: lower
    limit of the new opacities.
    """
    backend, params, num = model.backend, model.splats.params, model.num
    copies = backend.xp.zeros(num, "int32")
    launch(backend, FILE, "count_copies", len(parents), parents, len(parents), copies)
    launch(backend, FILE, "share_opacity", num, copies, params.shape[1], num, float(min_opacity), params)
    model.clear_moments(parents)
    model.copy(parents, slots)


def split_long_axis(model: Model, parents: DeviceArray, slots: DeviceArray) -> None:
    """Split each of the distinct splats `parents` along its longest axis: one half in its place, one in its slot.

    Halves have half the length and 60 % of the opacity (cf. Deng et al. 2024, "Efficient density control").
    """
    backend, params, count = model.backend, model.splats.params, len(parents)
    model.copy(parents, slots)
    model.clear_moments(parents)
    launch(backend, FILE, "split_long_axis", count, parents, slots, count, params.shape[1], params)


def split_random(model: Model, parents: DeviceArray, slots: DeviceArray, rng: np.random.Generator) -> None:
    """Replace each of the distinct splats `parents` by two smaller ones: one in its place, one in its slot.

    Positions are samples of the parent, sizes are divided by 1.6 (Kerbl et al. 2023, sec. 5.2).
    """
    backend, params, count = model.backend, model.splats.params, len(parents)
    normals = backend.upload(rng.standard_normal((3, 2 * count), np.float32))
    model.copy(parents, slots)
    model.clear_moments(parents)
    launch(backend, FILE, "split_random", count, parents, slots, normals, count, params.shape[1], params)


def reset_opacities(model: Model, max_opacity: float) -> None:
    """Lower the opacities of all trained splats to at most max_opacity, with zero moments."""
    max_logit = float(np.log(max_opacity / (1 - max_opacity)))
    counts = model.num_frozen, model.num
    launch(model.backend, FILE, "reset_opacities", model.num, *counts, max_logit, model.splats.params[OPACITY])
    model.clear_moments_of(OPACITY)


def limit_scales(model: Model, min_scale: float) -> None:
    """Raise all scales of trained splats to at least min_scale, in world units."""
    params, min_log_scale, num = model.splats.params, float(np.log(min_scale)), model.num
    arguments = params.shape[1], model.num_frozen, num, min_log_scale, params
    launch(model.backend, FILE, "limit_scales", num, *arguments)


UNSEEN = "density/unseen"
HIDDEN_LOGIT = -100.0  # logit of an opacity that float32 cannot distinguish from 0
MAX_ERROR = 1e-6  # probability that dropout hides a splat of a single view for max_unseen_steps


def max_unseen_steps(config: ResolvedConfig, num_views: int) -> int:
    """Number of steps in which training shows every view, and with --dropout every splat in one of its views.

    A view may come first in one permutation of all views and last in the next (data/training_images.py); any two
    passes over the views contain a whole permutation.
    """
    passes = 1 + (math.ceil(math.log(MAX_ERROR) / math.log(config.dropout)) if config.dropout > 0 else 1)
    return passes * ceil_div(num_views, config.batch_size) * config.batch_size


def mark_unseen(model: Model, before: int) -> DeviceArray:
    """Mask [num] of trained splats that no view has shown and no round has placed since step `before`."""
    backend, num = model.backend, model.num
    mask = backend.xp.zeros(num, "bool")
    if before > 0:
        seen = model.last_seen, model.num_without_moments
        launch(backend, UNSEEN, "mark_unseen", num, *seen, model.num_frozen, num, float(before), mask)
    return mask


def hide_unseen(model: Model, before: int) -> DeviceArray:
    """Make the splats of `mark_unseen` transparent; no view changes. Returns their indices int64."""
    index, _ = partition(model.backend, mark_unseen(model, before))
    _set(model, index, HIDDEN_LOGIT, model.splats.params[OPACITY])
    return index


def set_last_seen(model: Model, index: DeviceArray, step: int) -> None:
    """Treat the splats `index` int64 [K], with repetition, as seen in step `step`."""
    _set(model, index, step, model.last_seen, model.num_without_moments)


def _set(model: Model, index: DeviceArray, value: float, numbers: DeviceArray, missing: int = 0) -> None:
    launch(model.backend, UNSEEN, "set_numbers", len(index), index, len(index), float(value), numbers, missing)
