"""Supersampling, for renders of lower resolution than the training photographs.

Antialiasing assumes that the splats in a pixel overlap at random, but training placed them side by side. At training
resolution they render correctly, and the image can be downscaled like a photograph.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from splat_cli.render.rendered_maps import RenderedMaps
from splat_cli.scene.view import View

MAX_SAMPLES = 4


def samples_as_fine(views: Sequence[View], trained: Sequence[View]) -> int:
    """Samples per pixel and axis that give `views` the resolution of `trained`: 1 to MAX_SAMPLES."""
    if not views or not trained:
        return 1
    ratio = np.median([view.fy for view in trained]) / np.median([view.fy for view in views])
    return int(np.clip(round(float(ratio)), 1, MAX_SAMPLES))


def finer(view: View, samples: int) -> View:
    """The view at `samples` times the resolution."""
    return view.resized(view.width * samples, view.height * samples)


def coarser(frame: RenderedMaps, samples: int) -> RenderedMaps:
    """The frame of a view, from the frame of its `finer` view.

    Colours and alpha are resampled like photographs (scene/images/decode.py); depths and normals are means over the
    samples that have a value.
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
    return RenderedMaps(color, alpha, depth, normal)


def _lanczos(plane: np.ndarray, samples: int) -> np.ndarray:
    """Downscale float32 [H samples, W samples] to [H, W]."""
    height, width = plane.shape
    size = width // samples, height // samples
    return np.asarray(Image.fromarray(np.ascontiguousarray(plane)).resize(size, Image.Resampling.LANCZOS))


def _sums(values: np.ndarray, samples: int) -> np.ndarray:
    """Block sums of [H samples, W samples, ...], float32 [H, W, ...]."""
    height, width, *channels = values.shape
    blocks = values.reshape(height // samples, samples, width // samples, samples, *channels)
    return blocks.sum(axis=(1, 3), dtype=np.float32)
