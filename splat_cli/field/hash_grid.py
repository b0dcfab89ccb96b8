"""Encodings of positions and of directions: host side of cuda_src/field/hash_grid.cu and sh_encode.cu.

Positions: multiresolution hash grids (Instant-NGP, Mueller et al. 2022, sec. 3). Directions: spherical harmonics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from splat_cli.device import Backend, DeviceArray, check_arrays, launch
from splat_cli.errors import ShapeError
from splat_cli.field.parameters import Parameters

MAX_LEVELS, MAX_ENTRIES, MAX_RESOLUTION = 32, 2**28, 2**24
INITIAL = 1e-4  # initial entries are uniform within +- this

# Mirrors `struct Level` in cuda_src/field/hash_grid.cu.
LEVEL_DTYPE = np.dtype([("resolution", np.int32), ("size", np.uint32), ("offset", np.uint32), ("hashed", np.int32)])


@dataclass(frozen=True)
class GridShape:
    """The paper's L, T, F, N_min and b, for inputs of `dimensions` 2 or 3."""

    dimensions: int
    levels: int = 16
    table_size: int = 2**19
    features: int = 2
    base_resolution: int = 16
    growth: float = 1.5

    def __post_init__(self) -> None:
        if self.dimensions not in (2, 3) or self.features not in (1, 2, 4):
            got = f"{self.dimensions} dimensions and {self.features} features"
            raise ShapeError(f"a hash grid has 2 or 3 dimensions and 1, 2 or 4 features, got {got}")
        in_range = 1 <= self.levels <= MAX_LEVELS and 1 <= self.table_size <= MAX_ENTRIES and self.base_resolution >= 1
        if not in_range or not 1 <= self.base_resolution * self.growth ** (self.levels - 1) <= MAX_RESOLUTION:
            raise ShapeError(f"a hash grid has 1 to {MAX_LEVELS} levels and a resolution of at most 2^24, got {self}")

    @property
    def width(self) -> int:
        """Number of features of a point."""
        return self.levels * self.features

    def level_table(self) -> np.ndarray:
        """The levels, LEVEL_DTYPE [L]; a level's table has no more entries than its grid has nodes."""
        table, offset = np.zeros(self.levels, LEVEL_DTYPE), 0
        for index in range(self.levels):
            resolution = int(self.base_resolution * self.growth**index)
            corners = (resolution + 1) ** self.dimensions
            size = min(corners, self.table_size)
            table[index] = (resolution, size, offset, corners > self.table_size)
            offset += size
        return table

    @property
    def num_entries(self) -> int:
        """Number of entries of all levels."""
        last = self.level_table()[-1]
        return int(last["offset"]) + int(last["size"])


class HashGrid:
    """The encoding with its tables: `parameters`, [entries, F] as a flat array.

    Points are float32 planes [dimensions, rows], 0 to 1; features are planes [width, rows]; `num_rows`, uint32 [1] on
    the device, is the number of rows in use. half: read the tables in half precision.
    """

    def __init__(self, backend: Backend, shape: GridShape, rng: np.random.Generator, half: bool = False) -> None:
        self.backend, self.shape = backend, shape
        start = rng.uniform(-INITIAL, INITIAL, shape.num_entries * shape.features)
        self.parameters = Parameters(backend, start.astype(np.float32), half)
        self.levels = backend.upload(shape.level_table().view(np.uint8))
        self.defines = {"DIM": shape.dimensions, "FEATURES": shape.features}
        self.table_defines = {**self.defines, "HALF_TABLES": 1} if half else self.defines

    @property
    def tables(self) -> DeviceArray:
        """Tables that `encode` reads."""
        return self.parameters.values if self.parameters.halves is None else self.parameters.halves

    def encode(self, positions: DeviceArray, num_rows: DeviceArray, features: DeviceArray) -> None:
        """Write the features of the points."""
        rows = self._check("hash_encode", positions, features)
        arrays = positions, rows, num_rows, self.levels, self.tables, features
        self._launch("hash_encode", rows, self.shape.levels, self.table_defines, *arrays)

    def backward(self, positions: DeviceArray, num_rows: DeviceArray, d_features: DeviceArray) -> None:
        """Add to the gradients of the tables."""
        rows = self._check("hash_encode_backward", positions, d_features)
        arrays = positions, rows, num_rows, self.levels, d_features, self.parameters.gradients
        self._launch("hash_encode_backward", rows, self.shape.levels, self.defines, *arrays)

    def _launch(self, name: str, rows: int, levels: int, defines: dict[str, int], *args: Any) -> None:
        launch(self.backend, "field/hash_grid", name, rows, *args, rows=levels, **defines)

    def _check(self, kernel: str, positions: DeviceArray, features: DeviceArray) -> int:
        return check_arrays(
            kernel,
            positions=(positions, "float32", f"{self.shape.dimensions} R"),
            features=(features, "float32", f"{self.shape.width} R"),
        )["R"]


MAX_DIRECTION_DEGREE = 4


def encode_directions(
    backend: Backend, directions: DeviceArray, num_rows: DeviceArray, degree: int, features: DeviceArray
) -> None:
    """Write degree^2 harmonics (degree 1 to 4) of unit vectors: planes [3, rows] -> planes [degree^2, rows]."""
    shapes = check_arrays(
        "sh_encode", directions=(directions, "float32", "3 R"), features=(features, "float32", f"{degree**2} R")
    )
    arrays = directions, shapes["R"], num_rows, degree, features
    launch(backend, "field/sh_encode", "sh_encode", shapes["R"], *arrays)
