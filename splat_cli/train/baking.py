"""A colour field as harmonics that look like it: least squares over directions, then over pictures of training views."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.field.bake import bake_field
from splat_cli.field.color_field import ColorField
from splat_cli.field.coloring import FieldColoring
from splat_cli.field.parameters import Parameters
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.pictures import to_8bit
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.images import Photographs
from splat_cli.scene.view import View, evenly_spread
from splat_cli.train.evaluation import psnr
from splat_cli.train.fine_tune import COLORS_ONLY, fine_tuned

STEPS = 1500
MAX_VIEWS, MAX_BYTES = 256, 2**30  # of the field's pictures


@dataclass(frozen=True)
class Baked:
    """residual: as field.bake.Baked's, before the pictures. likeness: PSNR of pictures to the field's own, dB."""

    splats: SplatArrays
    residual: float
    likeness: float

    def __str__(self) -> str:
        return (
            f"harmonics of degree {self.splats.sh_degree}: colours {self.residual:.4f} off in single directions (root "
            f"mean square, 0 to 1), pictures {self.likeness:.1f} dB like the field's own"
        )


def baked_colors(
    field: ColorField, splats: SplatArrays, views: Sequence[View], config: TrainConfig, degree: int,
    embedding: np.ndarray | None = None,
) -> Baked:  # fmt: skip
    """The splats with harmonics of `degree` that show to `views` what the field shows, as near as they can.

    By bake_field, and from there on by the loss of the pictures, where errors of splats that lie over each other make up
    for one another. Only colours change. embedding: as bake_field's.
    """
    backend = field.backend
    start = bake_field(field, splats, views, degree, embedding)
    largest = max(3 * view.width * view.height for view in views)
    chosen = evenly_spread(views, max(min(MAX_VIEWS, MAX_BYTES // largest), 1))
    appearance = field.embedding_rows().mean(axis=0) if embedding is None else embedding
    embeddings = Parameters(backend, np.tile(appearance, (len(chosen), 1)))
    coloring = FieldColoring(field.with_rows(len(splats)), embeddings)
    renderer = ViewRenderer(backend, Splats.from_arrays(backend, splats), chosen, splats.antialiased, coloring)
    pictures = [to_8bit(renderer.render(index)) for index in range(len(chosen))]
    del renderer, coloring
    tuned = fine_tuned(
        backend, start.splats, Photographs(chosen, pictures, [None] * len(chosen), []), config, STEPS,
        sh_degree=degree, sh_degree_interval=1, ssim_weight=0.0, background="black", antialias=splats.antialiased,
        exposure=False, depth_weight=0.0, **COLORS_ONLY,
    )  # fmt: skip
    shown = ViewRenderer(backend, Splats.from_arrays(backend, tuned), chosen, splats.antialiased)
    likeness = np.mean([psnr(to_8bit(shown.render(index)), picture) for index, picture in enumerate(pictures)])
    return Baked(dataclasses.replace(tuned, antialiased=splats.antialiased), start.residual, float(likeness))
