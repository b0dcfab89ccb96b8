"""Several samples a pixel, for pictures that are coarser than the photographs that splats were trained on.

Antialiasing keeps what each splat covers, but a pixel of many splats treats them as if they overlapped by chance, where
training laid them side by side. As fine as in training they are right; the mean of such pixels is the coarser one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from splat_cli.render.frame import Frame
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
    names = ("width", "height", "fx", "fy", "cx", "cy")
    return dataclasses.replace(view, **{name: getattr(view, name) * samples for name in names})


def coarser(frame: Frame, samples: int) -> Frame:
    """The frame of a view out of that of `finer`: means over the samples; depth and normal over those that have one."""
    if samples == 1:
        return frame
    maps = {name: _blocks(values, samples) for name, values in frame.maps().items()}
    shrunk = {name: blocks.mean(axis=(1, 3)) for name, blocks in maps.items()}
    if "depth" in maps:
        shrunk["depth"] = maps["depth"].sum(axis=(1, 3)) / np.maximum((maps["depth"] > 0).sum(axis=(1, 3)), 1)
    if "normal" in maps:
        length = np.linalg.norm(shrunk["normal"], axis=-1, keepdims=True)
        shrunk["normal"] /= np.maximum(length, 1e-12)
    return Frame(**shrunk)


def _blocks(values: np.ndarray, samples: int) -> np.ndarray:
    """[H samples, W samples, ...] as [H, samples, W, samples, ...]."""
    height, width, *channels = values.shape
    return values.reshape(height // samples, samples, width // samples, samples, *channels)
