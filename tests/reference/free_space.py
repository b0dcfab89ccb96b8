"""Opacity in front of points: its mean square, and its gradient with respect to the raw splats, one point at a time."""

import numpy as np

from tests.reference import blend, project, project_backward
from tests.reference.inputs import Camera, Splats
from tests.reference.project import Options, Projected

Array = np.ndarray
REACH, SURFACE = 0.8, 0.1


def alphas_before(projected: Projected, pixel: tuple[float, float], depth: float) -> tuple[Array, Array, Array]:
    """Alphas [M] of visible splats, nearest first, at a pixel's centre, 0 outside of free space. Also dx and dy."""
    flat = projected.flat()
    dx, dy = (np.array(pixel) - flat.means2d).T
    a, b, c = flat.conics.T
    raw = flat.opacities * np.exp(-0.5 * (a * dx**2 + c * dy**2) - b * dx * dy)
    nearer = projected.depths[projected.splat_from_flat()] < REACH * depth
    return np.where(nearer & (raw >= blend.MIN_ALPHA), np.minimum(raw, blend.MAX_ALPHA), 0), dx, dy


def loss_and_gradients(
    splats: Splats, camera: Camera, pixels: Array, depths: Array, weight: float
) -> tuple[float, Array, Splats]:
    """weight * mean of squared opacities, the opacities [P], and gradients. pixels: row * width + column."""
    projected = project.forward(splats, camera, Options())
    flat, rows = projected.flat(), projected.splat_from_flat()
    means2d, conics, opacities = np.zeros((splats.num, 2)), np.zeros((splats.num, 3)), np.zeros(splats.num)
    before = np.zeros(len(pixels))
    for p, (index, depth) in enumerate(zip(pixels, depths, strict=True)):
        pixel = index % camera.width + 0.5, index // camera.width + 0.5
        alphas, dx, dy = alphas_before(projected, pixel, depth)
        before[p] = 1 - np.prod(1 - alphas)
        others = np.array([np.prod(1 - np.delete(alphas, m)) for m in range(len(alphas))])
        d_alphas = 2 * weight / len(pixels) * before[p] * others
        d_power = np.where((alphas > 0) & (alphas < blend.MAX_ALPHA), d_alphas * alphas, 0)
        a, b, c = flat.conics.T
        means2d[rows] += np.stack([d_power * (a * dx + b * dy), d_power * (b * dx + c * dy)], axis=1)
        conics[rows] += np.stack([-0.5 * d_power * dx**2, -d_power * dx * dy, -0.5 * d_power * dy**2], axis=1)
        opacities[rows] += d_power / flat.opacities
    gradients = project_backward.ProjectedGradients(means2d, conics, opacities, np.zeros((splats.num, 3)))
    raw = project_backward.backward(splats, camera, Options(), projected, gradients)[0]
    return float(weight * (before**2).mean()), before, raw


def counts(splats: Splats, camera: Camera, pixels: Array, depths: Array, is_clear: Array) -> Array:
    """Falloffs of splats at rays, summed: clear rays to points behind, other rays to them, rays to points at the splat.

    Returns [N, 3].
    """
    projected = project.forward(splats, camera, Options())
    flat, rows = projected.flat(), projected.splat_from_flat()
    found, (a, b, c) = np.zeros((splats.num, 3)), flat.conics.T
    for index, depth, clear in zip(pixels, depths, is_clear, strict=True):
        dx, dy = (np.array([index % camera.width + 0.5, index // camera.width + 0.5]) - flat.means2d).T
        falloffs = np.exp(-0.5 * (a * dx**2 + c * dy**2) - b * dx * dy)
        falloffs[flat.opacities * falloffs < blend.MIN_ALPHA] = 0
        share = projected.depths[rows] / depth
        found[rows, 0 if clear else 1] += np.where(share < REACH, falloffs, 0)
        found[rows, 2] += np.where(np.abs(share - 1) < SURFACE, falloffs, 0)
    return found
