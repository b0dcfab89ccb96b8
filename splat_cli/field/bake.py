"""A colour field as spherical harmonics, for viewers that know nothing of fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from splat_cli.field.color_field import ColorField
from splat_cli.field.coloring import FieldColoring
from splat_cli.field.directions import encode_directions
from splat_cli.field.parameters import Parameters
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.camera import CameraTable
from splat_cli.render.step import StepState
from splat_cli.scene.view import View, evenly_spread

MAX_VIEWS = 64  # looked from, evenly spread over those there are
AROUND = 24  # directions from far away, all around, that hold the fit where no view is
AROUND_WEIGHT = 0.05  # of one of them; a view has 1
CHUNK = 16384  # splats at once


@dataclass(frozen=True)
class Baked:
    """residual: root mean square difference of the splats' colours, 0 to 1, as the views see them."""

    splats: SplatArrays
    residual: float


def bake_field(
    field: ColorField, splats: SplatArrays, views: Sequence[View], degree: int, embedding: np.ndarray | None = None
) -> Baked:
    """The splats with harmonics of `degree` that show what the field says, by least squares over directions.

    The directions are those in which `views` see a splat. embedding: of the photograph whose appearance is baked, by
    default the mean of all.
    """
    chosen = evenly_spread(views, MAX_VIEWS)
    distant = _views_around(field)
    weights = np.array([1.0] * len(chosen) + [AROUND_WEIGHT] * len(distant), np.float32)
    appearance = field.embedding_rows().mean(axis=0) if embedding is None else embedding
    embeddings = Parameters(field.backend, np.tile(appearance, (len(weights), 1)))
    coloring = FieldColoring(field.with_rows(CHUNK), embeddings)
    coloring.resize(CHUNK)
    cameras = CameraTable(field.backend, chosen + distant)
    parts, squares = [], 0.0
    for begin in range(0, len(splats), CHUNK):
        basis, colors = _seen(
            coloring, splats.select(np.arange(begin, min(begin + CHUNK, len(splats)))), cameras, degree
        )
        fitted = _least_squares(field.backend.xp, basis, colors, field.backend.upload(weights))
        errors = (basis @ fitted - colors)[:, : len(chosen)]
        squares += float((errors.astype("float64") ** 2).sum())
        parts.append(field.backend.download(fitted))
    table = np.concatenate([*parts, np.zeros((0, (degree + 1) ** 2, 3), np.float32)]).astype(np.float32)
    residual = (squares / max(len(splats) * len(chosen) * 3, 1)) ** 0.5
    return Baked(dataclasses.replace(splats, sh0=table[:, 0].copy(), shN=table[:, 1:].copy()), residual)


def _seen(coloring: FieldColoring, splats: SplatArrays, cameras: CameraTable, degree: int) -> tuple[Any, Any]:
    """Values of the harmonics [N, D, K] and colours less 0.5 [N, D, 3], of N splats to D cameras."""
    backend, num = coloring.backend, len(splats)
    on_device, state = Splats.from_arrays(backend, splats, CHUNK), StepState(backend, num_splats=num)
    size, xp = (degree + 1) ** 2, backend.xp
    colors, values = xp.empty((CHUNK, 4), "float32"), xp.empty((size, CHUNK), "float32")
    basis, seen = (xp.empty((num, len(cameras.views), width), "float32") for width in (size, 3))
    for index in range(len(cameras.views)):
        state.write(view=index)
        coloring.color_all(on_device, cameras, state, colors)
        encode_directions(backend, coloring.directions, coloring.num_rows, degree + 1, values)
        basis[:, index], seen[:, index] = values[:, :num].T, colors[:num, :3] - 0.5
    return basis, seen


def _least_squares(xp: Any, basis: Any, colors: Any, weights: Any) -> Any:
    """Coefficients [N, K, 3] of the smallest sum of weighted squares."""
    weighted = (basis * weights[:, None]).transpose(0, 2, 1)
    return xp.linalg.solve(weighted @ basis, weighted @ colors)


def _views_around(field: ColorField) -> list[View]:
    """Views from so far away that all splats are in the same direction, spread evenly (Fibonacci's lattice)."""
    z = 1 - (2 * np.arange(AROUND) + 1) / AROUND
    angle = np.pi * (3 - 5**0.5) * np.arange(AROUND)
    directions = np.stack([np.sqrt(1 - z * z) * np.cos(angle), np.sqrt(1 - z * z) * np.sin(angle), z], axis=1)
    places = field.frame["center"] + directions * 1e4 / field.frame["inv_radius"]
    views = []
    for place in places:
        w2c = np.eye(4)
        w2c[:3, 3] = -place
        views.append(View("around", None, 1, 1, 1.0, 1.0, 0.5, 0.5, w2c))
    return views
