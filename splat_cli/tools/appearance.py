"""Appearance of rendered splats with a colour field: one photograph, the mean, or interpolation between two."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from splat_cli.device import Backend
from splat_cli.errors import UsageError
from splat_cli.field.coloring import FieldColoring
from splat_cli.field.file import FieldFile
from splat_cli.field.parameters import Parameters
from splat_cli.render.coloring import Coloring


def embeddings_along(saved: FieldFile, appearance: str | None, num_frames: int) -> np.ndarray:
    """Embedding of each frame, float32 [num_frames, size].

    appearance: name of a training photograph, "mean" (same as None), or A,B for linear interpolation over the frames.
    UsageError for others.
    """
    names = [None] if appearance is None else [appearance] if appearance in saved.names else appearance.split(",")
    if len(names) > 2:
        raise UsageError(f"appearance {appearance}: expected one photograph's name, or two separated by a comma")
    first, last = saved.embedding(names[0]), saved.embedding(names[-1])
    share = np.linspace(0, 1, num_frames, dtype=np.float32)[:, None]
    return (1 - share) * first + share * last


def colorings(
    saved: FieldFile, backend: Backend, rows: int, appearance: str | None, num_frames: int
) -> Callable[[Sequence[int]], Coloring]:
    """Function from frame numbers of views to a Coloring of `rows` splats."""
    field, looks = saved.open(backend, rows), embeddings_along(saved, appearance, num_frames)
    return lambda frames: FieldColoring(field, Parameters(backend, looks[list(frames)]))
