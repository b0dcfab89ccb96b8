"""Baking of a colour field into spherical harmonics, for viewers without fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from splat_cli.device import Backend, DeviceArray
from splat_cli.field.color_field import ColorField
from splat_cli.field.coloring import FieldColoring
from splat_cli.field.hash_grid import encode_directions
from splat_cli.field.parameters import Parameters
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.view import view_contributions
from splat_cli.scene.quaternion import world_to_camera
from splat_cli.scene.view import View, evenly_spread

MAX_VIEWS = 128  # number of views used, evenly spread over all
AROUND = 24  # evenly spread directions that regularise the fit where there are no views
FLOOR = 0.02  # total weight shared equally by all views, and total of distant directions; pixel weights sum to 1
CHUNK = 16384  # splats per batch


@dataclass(frozen=True)
class Baked:
    """residual: root mean square difference of colours (0 to 1) over the pixels that the splats cover in the views."""

    splats: SplatArrays
    residual: float


def bake_field(
    field: ColorField, splats: SplatArrays, views: Sequence[View], degree: int, embedding: np.ndarray | None = None
) -> Baked:
    """The splats with spherical harmonics of `degree` fitted to the field, by least squares over view directions.

    The fit uses the directions from which `views` see a splat, weighted by the pixels that it covers there. embedding:
    appearance to bake, by default the mean of all photographs.
    """
    chosen = evenly_spread(views, MAX_VIEWS)
    distant, backend = _views_around(field), field.backend
    appearance = field.embedding_rows().mean(axis=0) if embedding is None else embedding
    embeddings = Parameters(backend, np.tile(appearance, (len(chosen) + len(distant), 1)))
    coloring = FieldColoring(field.with_rows(CHUNK), embeddings)
    coloring.resize(CHUNK)
    cameras = CameraTable(backend, chosen + distant)
    pixels = _pixels(backend, splats, chosen)
    parts, squares = [], 0.0
    for begin in range(0, len(splats), CHUNK):
        end = min(begin + CHUNK, len(splats))
        basis, colors = _seen(coloring, splats.select(np.arange(begin, end)), cameras, degree)
        fitted = _least_squares(backend.xp, basis, colors, _weights(backend.xp, pixels[begin:end], len(distant)))
        errors = (basis @ fitted - colors)[:, : len(chosen)].astype("float64")
        squares += float((errors**2 * pixels[begin:end, :, None]).sum())
        parts.append(backend.download(fitted))
    table = np.concatenate([*parts, np.zeros((0, (degree + 1) ** 2, 3), np.float32)]).astype(np.float32)
    residual = (squares / max(3 * float(pixels.sum(dtype="float64")), 1e-9)) ** 0.5
    return Baked(dataclasses.replace(splats, sh0=table[:, 0].copy(), shN=table[:, 1:].copy(), features=None), residual)


def _pixels(backend: Backend, splats: SplatArrays, views: Sequence[View]) -> DeviceArray:
    """Pixels of each view that each splat covers, float32 [N, V]."""
    pixels = backend.xp.zeros((len(splats), len(views)), "float32")
    for index, column in enumerate(view_contributions(backend, splats, views)):
        pixels[:, index] = column
    return pixels


def _weights(xp: Any, pixels: DeviceArray, num_around: int) -> DeviceArray:
    """Weights of view directions and distant directions, float32 [N, V + num_around]; pixels: [N, V]."""
    num, num_views = pixels.shape
    by_pixels = pixels / xp.maximum(pixels.sum(axis=1, keepdims=True), 1e-6) + np.float32(FLOOR / num_views)
    return xp.concatenate([by_pixels, xp.full((num, num_around), FLOOR / num_around, "float32")], axis=1)


def _seen(
    coloring: FieldColoring, splats: SplatArrays, cameras: CameraTable, degree: int
) -> tuple[DeviceArray, DeviceArray]:
    """Values of the harmonics [N, D, K] and colours minus 0.5 [N, D, 3], for N splats and D cameras."""
    backend, num = coloring.backend, len(splats)
    on_device, state = Splats.from_arrays(backend, splats, CHUNK), IterState(backend, num_splats=num)
    state.write(sh_degree=on_device.sh_degree)
    size, xp = (degree + 1) ** 2, backend.xp
    colors, values = xp.empty((CHUNK, 4), "float32"), xp.empty((size, CHUNK), "float32")
    basis, seen = (xp.empty((num, len(cameras.views), width), "float32") for width in (size, 3))
    for index in range(len(cameras.views)):
        state.write(view=index)
        coloring.color_all(on_device, cameras, state, colors)
        encode_directions(backend, coloring.directions, coloring.num_rows, degree + 1, values)
        basis[:, index], seen[:, index] = values[:, :num].T, colors[:num, :3] - 0.5
    return basis, seen


def _least_squares(xp: Any, basis: DeviceArray, colors: DeviceArray, weights: DeviceArray) -> DeviceArray:
    """Coefficients float32 [N, K, 3] of the weighted least-squares fit; weights [N, D]."""
    weighted = (basis * weights[:, :, None]).transpose(0, 2, 1)
    squares, products = (weighted @ values for values in (basis, colors))
    return xp.linalg.solve(squares.astype("float64"), products.astype("float64")).astype("float32")


def _views_around(field: ColorField) -> list[View]:
    """Evenly spread views so distant that all splats have the same direction (Fibonacci lattice)."""
    z = 1 - (2 * np.arange(AROUND) + 1) / AROUND
    angle = np.pi * (3 - 5**0.5) * np.arange(AROUND)
    directions = np.stack([np.sqrt(1 - z * z) * np.cos(angle), np.sqrt(1 - z * z) * np.sin(angle), z], axis=1)
    places = field.frame["center"] + directions * 1e4 / field.frame["inv_radius"]
    return [View("around", None, 1, 1, 1.0, 1.0, 0.5, 0.5, world_to_camera(np.eye(3), place)) for place in places]
