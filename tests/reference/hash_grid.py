"""Multiresolution hash encoding (Mueller et al. 2022, Instant-NGP, section 3), in float64."""

from dataclasses import dataclass

import numpy as np

Array = np.ndarray

PRIMES = (1, 2654435761, 805459861)


@dataclass(frozen=True)
class Grid:
    """L = levels, T = table_size, N_min = base, b = growth."""

    dimensions: int
    levels: int
    table_size: int
    features: int
    base: int
    growth: float

    def resolutions(self) -> list[int]:
        return [int(np.floor(self.base * self.growth**level)) for level in range(self.levels)]

    def sizes(self) -> list[int]:
        """Entries of each level's table."""
        return [min((n + 1) ** self.dimensions, self.table_size) for n in self.resolutions()]


def corners(grid: Grid, level: int, positions: Array) -> tuple[Array, Array]:
    """For points [N, d]: entries [N, 2^d] in the level's table, and weights [N, 2^d]."""
    resolution, size = grid.resolutions()[level], grid.sizes()[level]
    scaled = np.clip(positions, 0, 1) * resolution
    cell = np.minimum(np.floor(scaled).astype(np.int64), resolution - 1)
    fraction = scaled - cell
    entries, weights = [], []
    for corner in range(2**grid.dimensions):
        upper = np.array([corner >> axis & 1 for axis in range(grid.dimensions)])
        at = cell + upper
        factors = np.where(upper, fraction, 1 - fraction)
        if (resolution + 1) ** grid.dimensions <= grid.table_size:
            entry = sum(at[:, axis] * (resolution + 1) ** axis for axis in range(grid.dimensions))
        else:
            entry = np.zeros(len(at), np.int64)
            for axis in range(grid.dimensions):
                entry ^= at[:, axis] * PRIMES[axis] % 2**32
            entry %= size
        entries.append(entry)
        weights.append(factors.prod(axis=1))
    return np.stack(entries, 1), np.stack(weights, 1)


def encode(grid: Grid, tables: list[Array], positions: Array) -> Array:
    """Features [N, L * F] of points [N, d]; tables: one array [entries, F] per level."""
    parts = []
    for level, table in enumerate(tables):
        entries, weights = corners(grid, level, positions)
        parts.append(np.einsum("nc,ncf->nf", weights, table[entries]))
    return np.concatenate(parts, axis=1)


def backward(grid: Grid, tables: list[Array], positions: Array, d_features: Array) -> list[Array]:
    """Gradients of the tables."""
    d_tables = []
    for level, table in enumerate(tables):
        entries, weights = corners(grid, level, positions)
        d = d_features[:, level * grid.features : (level + 1) * grid.features]
        d_table = np.zeros_like(table)
        np.add.at(d_table, entries, weights[..., None] * d[:, None])
        d_tables.append(d_table)
    return d_tables
