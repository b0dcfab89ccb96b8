"""The FLIP metric: perceived difference of two images, from 0 (identical) to 1. Needs the extra `flip`.

Andersson et al., "FLIP: A Difference Evaluator for Alternating Images", HPG 2020; computed by NVIDIA's own package.
"""

import importlib.util

import numpy as np

PIXELS_PER_DEGREE = 67  # of visual angle: the package's default, a monitor at arm's length


def has_flip() -> bool:
    """Whether the package is installed."""
    return importlib.util.find_spec("flip_evaluator") is not None


def flip(render: np.ndarray, photograph: np.ndarray, mask: np.ndarray | None = None) -> float:
    """Mean FLIP of two sRGB images uint8 [H, W, 3], over the pixels where `mask`, uint8 [H, W], is not 0."""
    import flip_evaluator

    reference, test = (np.ascontiguousarray(image, dtype=np.float32) / 255 for image in (photograph, render))
    settings = {"ppd": float(PIXELS_PER_DEGREE)}
    error = flip_evaluator.evaluate(reference, test, "LDR", applyMagma=False, parameters=settings)[0][..., 0]
    return float(np.mean(error if mask is None else error[mask > 0]))
