"""Appearance of rendered splats with a colour field: one photograph, the mean, or interpolation between two."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from splat_cli.device import Backend
from splat_cli.errors import UsageError
from splat_cli.field.coloring import FieldColoring
from splat_cli.field.file import FieldFile
from splat_cli.field.parameters import Parameters
from splat_cli.render.rasterizer import Coloring


def embeddings_along(saved: FieldFile, appearance: str | None, num_frames: int) -> np.ndarray:
    """The embedding of each frame, float32 [num_frames, size].

    appearance: the name of a training photograph, "mean" (as None), or two of them as A,B, between which the frames go
    evenly. UsageError for anything else.
    """
    names = [None] if appearance is None else [appearance] if appearance in saved.names else appearance.split(",")
    if len(names) > 2:
        raise UsageError(f"appearance {appearance}: expected one photograph's name, or two with a comma between")
    first, last = saved.embedding(names[0]), saved.embedding(names[-1])
    share = np.linspace(0, 1, num_frames, dtype=np.float32)[:, None]
    return (1 - share) * first + share * last


def colorings(
    saved: FieldFile, backend: Backend, rows: int, appearance: str | None, num_frames: int
) -> Callable[[Sequence[int]], Coloring]:
    """What colours `rows` splats: given the number of each view's frame, a Coloring for these views."""
    field, looks = saved.open(backend, rows), embeddings_along(saved, appearance, num_frames)
    return lambda frames: FieldColoring(field, Parameters(backend, looks[list(frames)]))
