"""The colour field of a run: size, bounds, initial parameters."""

from __future__ import annotations

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.errors import UsageError
from splat_cli.field.bounds import field_bounds
from splat_cli.field.color_field import ColorField, FieldShape
from splat_cli.field.hash_grid import GridShape
from splat_cli.gaussians.splats import MEANS, Splats

# Sizes of the hash grid (docs/field.md has them beside those of Instant-NGP, Mueller et al. 2022, table 1). Constants:
# no other values were measured.
FEATURES = 4  # of an entry: one load of 8 bytes and, from sm_90 on, one atomic of four floats
LEVELS = 8  # the 32 inputs of Instant-NGP's 16 levels of 2, with half as many lookups
COARSEST = 16  # cells an axis, as there: a quarter of the radius that most splats lie within (contraction.cuh)
GROWTH = 2.0  # up to 2,048 cells, as there for scenes of one unit; corners of a level are corners of the next


def field_shape(config: TrainConfig) -> FieldShape:
    """Shape of the field from the settings."""
    grid = GridShape(3, LEVELS, config.field_table_size, FEATURES, COARSEST, GROWTH)
    return FieldShape(
        grid, config.field_direction_degree, appearance=config.field_appearance, features=config.field_features
    )


def new_field(splats: Splats, num_views: int, config: TrainConfig) -> ColorField:
    """An untrained field for initial `splats` and `num_views` photographs. UsageError with --deterministic on CUDA."""
    if config.deterministic and splats.backend.name == "cuda":
        raise UsageError("--color field sums in any order on a GPU: leave out --deterministic, or use --device cpu")
    means = splats.backend.download(splats.params[MEANS, : splats.num]).T
    rng = np.random.default_rng((config.seed, 2))  # not the generator of density control
    return ColorField(splats.backend, field_shape(config), field_bounds(means), num_views, splats.capacity, rng)
