"""Inputs of a trainer that come from the dataset."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from splat_cli.data.image_streamer import ImageBudget
from splat_cli.scene.images.image_set import ImageSet


@dataclass(frozen=True)
class TrainingInputs:
    """Photographs of the training views, points of the scene, and initial offsets of poses.

    images: all on the device, or streamed if `budget` is given. points: float32 [P, 3] of the scene, world units, for
    --depth-weight and --free-space, or None. pose_offsets: float32 [V, 6, 9 or 11], initial offsets of --pose-opt, as
    for `moved_views`, or None.
    """

    images: ImageSet
    budget: ImageBudget | None = None
    points: np.ndarray | None = None
    pose_offsets: np.ndarray | None = None
