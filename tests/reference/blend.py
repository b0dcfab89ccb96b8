"""Front-to-back compositing of projected splats and its gradient, pixel by pixel.

Kerbl et al. 2023, section 6 and equation 3, with its conventions: alpha = min(0.99, opacity exp(power)), alphas under
1/255 are skipped. A pixel ends once its transmittance is below 1e-4 (there: one splat earlier). The absolute
gradient of a splat's mean follows AbsGS (Ye et al. 2024, equation 6).
"""

from dataclasses import dataclass

import numpy as np

Array = np.ndarray

MAX_ALPHA = 0.99
MIN_ALPHA = 1 / 255
MIN_TRANSMITTANCE = 1e-4


@dataclass(frozen=True)
class Flat:
    """M splats on the image plane, nearest first."""

    means2d: Array  # [M, 2] pixels
    conics: Array  # [M, 3] (a, b, c): power = -(a dx^2 + c dy^2) / 2 - b dx dy
    opacities: Array  # [M]
    colors: Array  # [M, 3]


@dataclass(frozen=True)
class Blended:
    image: Array  # [3, H, W]
    transmittance: Array  # [H, W] transmittance: the weight of the background
    alphas: Array  # [M, H, W], 0 where a splat does not contribute
    # [H, W] relative distance to the nearest threshold (skip, clamp, end): rounding could cross it
    margin: Array


@dataclass(frozen=True)
class BlendGradients:
    means2d: Array  # [M, 2]
    abs_means2d: Array  # [M, 2] sum over pixels of the absolute values
    conics: Array  # [M, 3]
    opacities: Array  # [M]
    colors: Array  # [M, 3]
    background: Array  # [3]


def _falloff(flat: Flat, m: int, height: int, width: int) -> tuple[Array, Array, Array]:
    """Splat m's dx [W] and dy [H, 1] from its mean to the pixel centres, and exp(power) [H, W]."""
    dx = np.arange(width) + 0.5 - flat.means2d[m, 0]
    dy = (np.arange(height) + 0.5 - flat.means2d[m, 1])[:, None]
    a, b, c = flat.conics[m]
    return dx, dy, np.exp(-0.5 * (a * dx**2 + c * dy**2) - b * dx * dy)


def forward(flat: Flat, background: Array, width: int, height: int) -> Blended:
    """background [3]."""
    image = np.zeros((3, height, width))
    transmittance = np.ones((height, width))
    alphas = np.zeros((len(flat.means2d), height, width))
    margin = np.full((height, width), np.inf)
    for m in range(len(flat.means2d)):
        raw = flat.opacities[m] * _falloff(flat, m, height, width)[2]
        alpha = np.minimum(MAX_ALPHA, raw)
        alive = transmittance >= MIN_TRANSMITTANCE
        skip_margin = np.minimum(np.abs(raw / MIN_ALPHA - 1), np.abs(raw / MAX_ALPHA - 1))
        end_margin = np.abs(transmittance / MIN_TRANSMITTANCE - 1)
        margin = np.minimum(margin, np.where(alive, np.minimum(skip_margin, end_margin), end_margin))
        alphas[m] = np.where(alive & (alpha >= MIN_ALPHA), alpha, 0)
        image += transmittance * alphas[m] * flat.colors[m][:, None, None]
        transmittance = transmittance * (1 - alphas[m])
    image += transmittance * background[:, None, None]
    return Blended(image, transmittance, alphas, margin)


def backward(flat: Flat, background: Array, blended: Blended, d_image: Array) -> BlendGradients:
    """d_image [3, H, W].  Walks back to front; `behind` is the colour behind a splat."""
    num = len(flat.means2d)
    height, width = blended.transmittance.shape
    means2d, abs_means2d, conics = np.zeros((num, 2)), np.zeros((num, 2)), np.zeros((num, 3))
    opacities, colors = np.zeros(num), np.zeros((num, 3))
    transmittance = blended.transmittance
    behind = np.einsum("c,chw->hw", background, d_image)
    for m in reversed(range(num)):
        alpha = blended.alphas[m]
        transmittance = transmittance / (1 - alpha)
        radiance = np.einsum("c,chw->hw", flat.colors[m], d_image)
        colors[m] = (transmittance * alpha * d_image).sum(axis=(1, 2))
        d_alpha = transmittance * (radiance - behind)
        behind = alpha * radiance + (1 - alpha) * behind

        dx, dy, falloff = _falloff(flat, m, height, width)
        # A clamped alpha is a constant.
        d_raw = np.where((alpha > 0) & (flat.opacities[m] * falloff < MAX_ALPHA), d_alpha, 0)
        d_power = d_raw * flat.opacities[m] * falloff
        opacities[m] = (d_raw * falloff).sum()
        conics[m] = [(d_power * -0.5 * dx**2).sum(), (d_power * -dx * dy).sum(), (d_power * -0.5 * dy**2).sum()]
        a, b, c = flat.conics[m]
        d_pixels = np.stack([d_power * (a * dx + b * dy), d_power * (b * dx + c * dy)])
        means2d[m] = d_pixels.sum(axis=(1, 2))
        abs_means2d[m] = np.abs(d_pixels).sum(axis=(1, 2))
    d_background = (blended.transmittance * d_image).sum(axis=(1, 2))
    return BlendGradients(means2d, abs_means2d, conics, opacities, colors, d_background)
