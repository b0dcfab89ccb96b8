"""L = (1 - lambda) mean |x - y| + lambda (1 - mean SSIM(x, y)), its parts and its gradient with respect to x.

SSIM as in Wang et al. 2004, section III-B, with the 11x11 Gaussian window of sigma 1.5, zero padding and
C1 = 0.01^2, C2 = 0.03^2. With a mask, masked pixels are zero in both images and the means are over the other pixels.
"""

from dataclasses import dataclass

import numpy as np

Array = np.ndarray

RADIUS = 5
SIGMA = 1.5
C1 = 0.01**2
C2 = 0.03**2


@dataclass(frozen=True)
class Loss:
    value: float
    l1: float  # mean |x - y|
    ssim: float  # mean SSIM
    d_image: Array  # [3, H, W]


def window() -> Array:
    """The Gaussian's 11 weights along one axis; they sum to 1."""
    offsets = np.arange(-RADIUS, RADIUS + 1)
    weights = np.exp(-(offsets**2) / (2 * SIGMA**2))
    return weights / weights.sum()


def blur(image: Array) -> Array:
    """Image [..., H, W] convolved with the window, zero outside. Self-adjoint, because the window is symmetric."""
    height, width = image.shape[-2:]
    edge = [(0, 0)] * (image.ndim - 2)
    rows = np.pad(image, [*edge, (RADIUS, RADIUS), (0, 0)])
    image = sum(weight * rows[..., k : k + height, :] for k, weight in enumerate(window()))
    columns = np.pad(image, [*edge, (0, 0), (RADIUS, RADIUS)])
    return sum(weight * columns[..., k : k + width] for k, weight in enumerate(window()))


def ssim_and_gradient(x: Array, y: Array, weights: Array) -> tuple[float, Array]:
    """sum(weights * SSIM map) and its gradient with respect to x; all [3, H, W]."""
    mean_x, mean_y = blur(x), blur(y)
    var_x = blur(x * x) - mean_x**2
    var_y = blur(y * y) - mean_y**2
    covariance = blur(x * y) - mean_x * mean_y

    luminance_top, luminance_bottom = 2 * mean_x * mean_y + C1, mean_x**2 + mean_y**2 + C1
    structure_top, structure_bottom = 2 * covariance + C2, var_x + var_y + C2
    luminance = luminance_top / luminance_bottom
    structure = structure_top / structure_bottom

    # Gradients with respect to the three blurred images that depend on x: E[x], E[x^2] and E[x y].
    d_square = -luminance * structure / structure_bottom
    d_product = 2 * luminance / structure_bottom
    d_luminance = 2 * (mean_y - luminance * mean_x) / luminance_bottom
    d_mean = structure * d_luminance - 2 * mean_x * d_square - mean_y * d_product
    gradient = blur(weights * d_mean) + 2 * x * blur(weights * d_square) + y * blur(weights * d_product)
    return float((weights * luminance * structure).sum()), gradient


def loss(image: Array, photograph: Array, ssim_weight: float, mask: Array | None = None) -> Loss:
    """image [3, H, W] unclamped; photograph uint8 [H, W, 3]; mask bool [H, W], True where the pixel counts."""
    target = np.moveaxis(photograph.astype(np.float64) / 255, -1, 0)
    kept = np.ones(target.shape) if mask is None else np.broadcast_to(mask, target.shape).astype(np.float64)
    weights = kept / max(kept.sum(), 1)
    difference = (image - target) * kept
    l1 = float((weights * np.abs(difference)).sum())
    ssim, d_ssim = ssim_and_gradient(image * kept, target * kept, weights)
    value = (1 - ssim_weight) * l1 + ssim_weight * (1 - ssim)
    d_image = (1 - ssim_weight) * weights * np.sign(difference) - ssim_weight * kept * d_ssim
    return Loss(value, l1, ssim, d_image)
