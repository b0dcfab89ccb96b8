"""Splats that no training view shows: host side of cuda_src/density/unseen.cu.

A view shows a splat if it gives the splat's colour a non-zero gradient. A splat that is out of the frame, behind
opaque splats, masked or too transparent gets none. `Model.last_seen` is the last step in which a view showed the
splat (project_backward).
"""

from __future__ import annotations

import math

from splat_cli.config import ResolvedConfig
from splat_cli.device import DeviceArray
from splat_cli.device.launch import ceil_div, launch
from splat_cli.gaussians.splats import OPACITY
from splat_cli.model.columns import partition
from splat_cli.model.model import Model

FILE = "density/unseen"
HIDDEN_LOGIT = -100.0  # logit of an opacity that float32 cannot distinguish from 0
MAX_ERROR = 1e-6  # probability that dropout hides a splat of a single view for max_unseen_steps


def max_unseen_steps(config: ResolvedConfig, num_views: int) -> int:
    """Number of steps in which training shows every view, and with --dropout every splat in one of its views.

    A view may come first in one permutation of all views and last in the next (data/view_order.py); any two passes over
    the views contain a whole permutation.
    """
    passes = 1 + (math.ceil(math.log(MAX_ERROR) / math.log(config.dropout)) if config.dropout > 0 else 1)
    return passes * ceil_div(num_views, config.batch_size) * config.batch_size


def mark_unseen(model: Model, before: int) -> DeviceArray:
    """Mask [num] of trained splats that no view has shown and no round has placed since step `before`."""
    backend, num = model.backend, model.num
    mask = backend.xp.zeros(num, "bool")
    if before > 0:
        seen = model.last_seen, model.first_moment
        launch(backend, FILE, "mark_unseen", num, *seen, model.num_frozen, num, float(before), mask)
    return mask


def hide_unseen(model: Model, before: int) -> DeviceArray:
    """Make the splats of `mark_unseen` transparent; no view changes. Returns their indices int64."""
    index, _ = partition(model.backend, mark_unseen(model, before))
    _set(model, index, HIDDEN_LOGIT, model.splats.params[OPACITY])
    return index


def restart_clocks(model: Model, index: DeviceArray, step: int) -> None:
    """Treat the splats `index` int64 [K], with repetition, as seen in step `step`."""
    _set(model, index, step, model.last_seen, model.first_moment)


def _set(model: Model, index: DeviceArray, value: float, numbers: DeviceArray, missing: int = 0) -> None:
    launch(model.backend, FILE, "set_numbers", len(index), index, len(index), float(value), numbers, missing)
