"""The colour field in float64: contraction (Mip-NeRF 360, Barron et al. 2022, eq. 10), encodings, network, colour."""

from dataclasses import dataclass

import numpy as np

from tests.reference import hash_grid, network, sh

Array = np.ndarray


def contract(x: Array) -> Array:
    """Points [N, 3] in radii from the centre -> the unit cube."""
    r = np.linalg.norm(x, axis=1, keepdims=True)
    return (np.where(r > 1, (2 - 1 / r) / r, 1) * x + 2) / 4


@dataclass
class Field:
    """grid and tables as in hash_grid, layers as in network; embedding [E] of the photograph, features [N, F]."""

    grid: hash_grid.Grid
    tables: list[Array]
    layers: list[Array]
    embedding: Array
    degree: int
    center: Array
    radius: float
    features: Array | None = None


@dataclass
class Seen:
    """Values of the forward pass that the backward pass needs."""

    unit: Array
    direction: Array
    values: list[Array]
    own: Array
    colors: Array


def forward(field: Field, means: Array, coefficients: Array, camera: Array) -> Seen:
    """Colours [N, 3] of splats with means [N, 3] and harmonics [N, K, 3] from a camera at `camera` [3]."""
    ray = means - camera
    direction = ray / np.linalg.norm(ray, axis=1, keepdims=True)
    unit = contract((means - field.center) / field.radius)
    inputs = [
        hash_grid.encode(field.grid, field.tables, unit),
        sh.basis(direction, field.degree - 1),
        np.tile(field.embedding, (len(means), 1)),
        np.zeros((len(means), 0)) if field.features is None else field.features,
    ]
    values = network.forward(field.layers, np.concatenate(inputs, axis=1), sigmoid=False)
    basis = sh.basis(direction, round(coefficients.shape[1] ** 0.5) - 1)
    own = 0.5 + np.einsum("nk,nkc->nc", basis, coefficients)
    return Seen(unit, direction, values, own, np.maximum(own * (1 + values[-1][:, :3]) + values[-1][:, 3:], 0))


@dataclass
class Gradients:
    own: Array
    tables: list[Array]
    layers: list[Array]
    embedding: Array
    features: Array


def backward(field: Field, seen: Seen, d_colors: Array) -> Gradients:
    """Gradients of the sum of colours times d_colors [N, 3]."""
    d = np.where(seen.colors > 0, d_colors, 0)
    d_outputs = np.concatenate([d * seen.own, d], axis=1)
    d_layers, d_inputs = network.backward(field.layers, seen.values, d_outputs, sigmoid=False)
    begin = field.grid.levels * field.grid.features
    end = begin + field.degree**2
    d_tables = hash_grid.backward(field.grid, field.tables, seen.unit, d_inputs[:, :begin])
    own = d * (1 + seen.values[-1][:, :3])
    last = end + len(field.embedding)
    return Gradients(own, d_tables, d_layers, d_inputs[:, end:last].sum(axis=0), d_inputs[:, last:])
