"""Supersampling, for renders coarser than the training photographs.

Antialiasing keeps what each splat covers, but a pixel of many splats treats them as if they overlapped by chance, where
training laid them side by side. As fine as in training they are right, and can be shrunk like photographs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from splat_cli.render.frame import RenderOutput
from splat_cli.scene.view import View

MAX_SAMPLES = 4


def samples_as_fine(views: Sequence[View], trained: Sequence[View]) -> int:
    """How many samples across a pixel of `views` are as fine as the pixels of `trained`: 1 to MAX_SAMPLES."""
    if not views or not trained:
        return 1
    ratio = np.median([view.fy for view in trained]) / np.median([view.fy for view in views])
    return int(np.clip(round(float(ratio)), 1, MAX_SAMPLES))


def finer(view: View, samples: int) -> View:
    """The view with so many pixels for each, across and down."""
    return view.resized(view.width * samples, view.height * samples)


def coarser(frame: RenderOutput, samples: int) -> RenderOutput:
    """The frame of a view out of that of `finer`.

    Colours and alpha are resampled like photographs (scene/images/decode.py); depth and normal are means over the
    samples that have one.
    """
    if samples == 1:
        return frame
    color = np.stack([_lanczos(channel, samples) for channel in np.moveaxis(frame.color, -1, 0)], axis=-1)
    alpha = depth = normal = None
    if frame.alpha is not None:
        alpha = np.clip(_lanczos(frame.alpha, samples), 0, 1)
    if frame.depth is not None:
        depth = _sums(frame.depth, samples) / np.maximum(_sums(frame.depth > 0, samples), 1)
    if frame.normal is not None:
        total = _sums(frame.normal, samples)
        normal = total / np.maximum(np.linalg.norm(total, axis=-1, keepdims=True), 1e-12)
    return RenderOutput(color, alpha, depth, normal)


def _lanczos(plane: np.ndarray, samples: int) -> np.ndarray:
    """float32 [H samples, W samples] to [H, W]."""
    height, width = plane.shape
    size = width // samples, height // samples
    return np.asarray(Image.fromarray(np.ascontiguousarray(plane)).resize(size, Image.Resampling.LANCZOS))


def _sums(values: np.ndarray, samples: int) -> np.ndarray:
    """[H samples, W samples, ...] to float32 [H, W, ...]."""
    height, width, *channels = values.shape
    blocks = values.reshape(height // samples, samples, width // samples, samples, *channels)
    return blocks.sum(axis=(1, 3), dtype=np.float32)
