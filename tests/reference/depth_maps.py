"""Depth maps as targets of blended inverse depths: sampling, least squares with weights, the loss and its gradient."""

import numpy as np

Array = np.ndarray

SMOOTH, OPAQUE, TOLERANCE, SOFT, MIN_WEIGHT, MIN_VARIANCE = 1.1, 0.5, 0.02, 0.05, 16, 1e-5


def sample(values: Array, weights: Array | None, mask: Array | None, height: int, width: int) -> tuple[Array, Array]:
    """Values and weights [height, width] of a map [h, w] at the centres of pixels; weight 0 without a depth."""
    sampled, weight = np.zeros((height, width)), np.zeros((height, width))
    rows, columns = values.shape
    for y in range(height):
        for x in range(width):
            u = np.clip((x + 0.5) * columns / width - 0.5, 0, columns - 1)
            v = np.clip((y + 0.5) * rows / height - 0.5, 0, rows - 1)
            x0, y0 = int(u), int(v)
            x1, y1, dx, dy = min(x0 + 1, columns - 1), min(y0 + 1, rows - 1), u - x0, v - y0
            nearest = (y0 if dy < 0.5 else y1, x0 if dx < 0.5 else x1)
            around = values[[y0, y0, y1, y1], [x0, x1, x0, x1]].astype(float)
            sampled[y, x] = values[nearest]
            if values[nearest] > 0 and (mask is None or mask[y, x]):
                weight[y, x] = 1.0 if weights is None else weights[nearest] / 255
            if around.min() > 0 and around.max() <= SMOOTH * around.min():
                shares = [(1 - dx) * (1 - dy), dx * (1 - dy), (1 - dx) * dy, dx * dy]
                sampled[y, x] = around @ shares
    return sampled, weight


def targets(sampled: Array, scale: float, shift: float) -> Array:
    return np.maximum(shift + scale * (sampled - 1), 0)


def inverse_depths(image: Array) -> Array:
    """Inverse of the expected depth [H, W] of blended depths and opacities, image[1] and image[2]; 0: transparent."""
    return np.where((image[2] >= OPAQUE) & (image[1] > 0), image[2] / np.maximum(image[1], 1e-30), 0)


def fit(sampled: Array, weight: Array, inverse: Array, passes: int) -> tuple[float, float]:
    """(scale, shift) of the map's values against inverse depths; scale 0 without a fit."""
    used = (weight > 0) & (inverse > 0)
    x, inverse = sampled[used] - 1, inverse[used]
    scale = shift = 0.0
    for number in range(passes):
        w = weight[used].copy()
        if number:
            residuals = np.abs(targets(sampled[used], scale, shift) - inverse)
            w *= np.minimum(TOLERANCE * shift / np.maximum(residuals, 1e-30), 1)
        mean_x, mean = np.average(x, weights=w), np.average(inverse, weights=w)
        variance = np.average(x * x, weights=w) - mean_x**2
        if w.sum() < MIN_WEIGHT or variance < MIN_VARIANCE:
            return 0.0, mean
        scale = (np.average(x * inverse, weights=w) - mean_x * mean) / variance
        shift = mean - scale * mean_x
    return scale, shift


def total(sampled: Array, weights: Array, scale: float, shift: float) -> float:
    """Weighted sum of the targets: the divisor of the loss."""
    return float((weights * (shift + scale * (sampled - 1))).sum())


def loss(
    image: Array, sampled: Array, weights: Array, scale: float, shift: float, weight: float
) -> tuple[float, Array]:
    """Loss of blended inverse depths [H, W], and its gradient: weight * sum huber(difference) / sum of targets."""
    divisor = total(sampled, weights, scale, shift)
    if not (scale > 0 and shift > 0 and divisor > 0):
        return 0.0, np.zeros_like(image)
    soft, difference = SOFT * shift, image - targets(sampled, scale, shift)
    size = np.abs(difference)
    huber = np.where(size > soft, size - soft / 2, size**2 / (2 * soft))
    return float(weight * (weights * huber).sum() / divisor), weight * weights * np.clip(
        difference / soft, -1, 1
    ) / divisor
