"""Depth supervision: a loss of blended inverse depths, and its gradient with respect to the raw splats."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tests.reference import blend, project, project_backward
from tests.reference.inputs import Camera, Splats
from tests.reference.project import Options, Projected

Array = np.ndarray


def inverse_depths(projected: Projected) -> blend.Flat:
    """Values that are blended instead of colours: 1 / z, z and 1 of the visible splats."""
    flat = projected.flat()
    depths = projected.depths[projected.splat_from_flat()]
    return replace(flat, colors=np.column_stack([1 / depths, depths, np.ones_like(depths)]))


def loss(image: Array, pixels: Array, targets: Array, weight: float) -> tuple[float, Array]:
    """Loss of blended inverse depths [H, W], and its gradient: weight * mean |difference| / mean target."""
    differences = image.ravel()[pixels] - targets
    d_image = np.zeros(image.size)
    d_image[pixels] = weight * np.sign(differences) / targets.sum()
    return float(weight * np.abs(differences).sum() / targets.sum()), d_image.reshape(image.shape)


def loss_and_gradients(
    splats: Splats, camera: Camera, options: Options, pixels: Array, targets: Array, weight: float
) -> tuple[float, Splats]:
    """`loss` of the splats, and its gradients with respect to them."""
    return gradients_of(splats, camera, options, lambda image: loss(image[0], pixels, targets, weight))


def gradients_of(
    splats: Splats, camera: Camera, options: Options, loss: Callable[[Array], tuple[float, Array]]
) -> tuple[float, Splats]:
    """A loss and its gradients. loss: maps the blended values [3, H, W] to (value, d_inverse [H, W])."""
    projected = project.forward(splats, camera, options)
    flat, nothing = inverse_depths(projected), np.zeros(3)
    blended = blend.forward(flat, nothing, camera.width, camera.height)
    value, d_inverse = loss(blended.image)
    d_image = np.stack([d_inverse, 0 * d_inverse, 0 * d_inverse])
    d_flat = blend.backward(flat, nothing, blended, d_image)
    rows = projected.splat_from_flat()

    d_projected = project_backward.ProjectedGradients(
        projected.by_splat(d_flat.means2d),
        projected.by_splat(d_flat.conics),
        projected.by_splat(d_flat.opacities),
        np.zeros((splats.num, 3)),
    )
    gradients, _ = project_backward.backward(splats, camera, options, projected, d_projected)
    d_z = -d_flat.colors[:, 0] / projected.depths[rows] ** 2
    gradients.means[rows] += d_z[:, None] * camera.w2c[2, :3]
    return value, gradients
