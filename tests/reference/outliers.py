"""Outliers of a picture: a threshold, and the share of a pixel's neighbours above it (RobustNeRF)."""

import numpy as np

Array = np.ndarray

RADIUS = 4
BINS = 128


def residuals(image: Array, photograph: Array) -> Array:
    """[H, W] mean absolute difference over channels; image [3, H, W], photograph uint8 [H, W, 3]."""
    return np.abs(image - np.moveaxis(photograph / 255, -1, 0)).mean(axis=0)


def find(residual: Array, mask: Array, threshold: float, share: float) -> Array:
    """bool [H, W]: whether at least `share` of the surrounding pixels in the picture exceed the threshold."""
    over = (residual > threshold) & mask
    found = np.zeros(over.shape, bool)
    for y, x in np.ndindex(over.shape):
        around = over[max(y - RADIUS, 0) : y + RADIUS + 1, max(x - RADIUS, 0) : x + RADIUS + 1]
        found[y, x] = around.mean() >= share
    return found


def histogram(residual: Array, mask: Array) -> Array:
    """[BINS] share of the mask's pixels per bin; bin k begins at (k / BINS)^2."""
    bins = np.minimum(np.sqrt(residual[mask]) * BINS, BINS - 1).astype(int)
    return np.bincount(bins, minlength=BINS) / max(mask.sum(), 1)


def quantile(histogram: Array, share: float) -> float:
    """The residual at the quantile `share` of the histogram; its square root is interpolated within a bin."""
    sums = np.cumsum(histogram)
    k = min(int(np.searchsorted(sums, share * sums[-1])), BINS - 1)
    return float(((k + (share * sums[-1] - (sums[k] - histogram[k])) / histogram[k]) / BINS) ** 2)
