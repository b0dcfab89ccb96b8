"""The colour field of a run: size, bounds, initial parameters."""

from __future__ import annotations

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.errors import UsageError
from splat_cli.field.bounds import field_bounds
from splat_cli.field.color_field import ColorField, FieldShape
from splat_cli.field.hash_grid import GridShape
from splat_cli.gaussians.splats import MEANS, Splats

LEVELS, FEATURES, COARSEST, GROWTH = 8, 4, 16, 2.0  # cells of 1/16 to 1/2048 of the unit cube


def field_shape(config: TrainConfig) -> FieldShape:
    """Shape of the field from the settings."""
    grid = GridShape(3, LEVELS, config.field_table_size, FEATURES, COARSEST, GROWTH)
    return FieldShape(grid, config.field_direction_degree, appearance=config.field_appearance)


def new_field(splats: Splats, num_views: int, config: TrainConfig) -> ColorField:
    """An untrained field for initial `splats` and `num_views` photographs. UsageError with --deterministic on CUDA."""
    if config.deterministic and splats.backend.name == "cuda":
        raise UsageError("--color field sums in any order on a GPU: leave out --deterministic, or use --device cpu")
    means = splats.backend.download(splats.params[MEANS, : splats.num]).T
    random = np.random.default_rng((config.seed, 2))  # not the generator of density control
    return ColorField(splats.backend, field_shape(config), field_bounds(means), num_views, splats.capacity, random)
