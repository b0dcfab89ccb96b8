"""The colour field of a run: how large it is, and where it begins."""

from __future__ import annotations

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.errors import UsageError
from splat_cli.field.color_field import ColorField, FieldShape
from splat_cli.field.coloring import FieldColoring
from splat_cli.field.frame import field_bounds
from splat_cli.field.hash_grid import GridShape
from splat_cli.gaussians.splats import MEANS, Splats

LEVELS, FEATURES, COARSEST, GROWTH = 8, 4, 16, 2.0  # cells of 1/16 to 1/2048 of the unit cube


def field_shape(config: TrainConfig) -> FieldShape:
    """The field that the settings ask for."""
    grid = GridShape(3, LEVELS, config.field_table_size, FEATURES, COARSEST, GROWTH)
    return FieldShape(grid, config.field_direction_degree, appearance=config.field_appearance)


def make_coloring(splats: Splats, num_views: int, config: TrainConfig) -> FieldColoring:
    """A fresh field for `splats`, as they start, and `num_views` photographs. UsageError where it cannot be had."""
    if config.deterministic and splats.backend.name == "cuda":
        raise UsageError("--color field adds up in any order on a GPU: leave out --deterministic, or use --device cpu")
    means = splats.backend.download(splats.params[MEANS, : splats.num]).T
    random = np.random.default_rng((config.seed, 2))  # not the generator of the run, which density control draws from
    shape, frame = field_shape(config), field_bounds(means)
    field = ColorField(splats.backend, shape, frame, num_views, splats.capacity, random)
    return FieldColoring(field, moves=config.field_moves)
