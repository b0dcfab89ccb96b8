"""Supervision of depth: a loss of blended inverse depths, and its gradient by the raw splats."""

from dataclasses import replace

import numpy as np

from tests.reference import blend, project, project_backward
from tests.reference.inputs import Camera, Splats
from tests.reference.project import Options, Projected

Array = np.ndarray


def inverse_depths(projected: Projected) -> blend.Flat:
    """What is blended: the visible splats with 1 / z in place of red, and nothing else."""
    flat = projected.flat()
    inverse = 1 / projected.depths[projected.splat_from_flat()]
    return replace(flat, colors=np.column_stack([inverse, 0 * inverse, 0 * inverse]))


def loss(image: Array, pixels: Array, targets: Array, weight: float) -> tuple[float, Array]:
    """Of blended inverse depths [H, W], and its gradient: weight * mean |difference| / mean target."""
    differences = image.ravel()[pixels] - targets
    d_image = np.zeros(image.size)
    d_image[pixels] = weight * np.sign(differences) / targets.sum()
    return float(weight * np.abs(differences).sum() / targets.sum()), d_image.reshape(image.shape)


def loss_and_gradients(
    splats: Splats, camera: Camera, options: Options, pixels: Array, targets: Array, weight: float
) -> tuple[float, Splats]:
    projected = project.forward(splats, camera, options)
    flat, nothing = inverse_depths(projected), np.zeros(3)
    blended = blend.forward(flat, nothing, camera.width, camera.height)
    value, d_depth = loss(blended.image[0], pixels, targets, weight)
    d_image = np.stack([d_depth, 0 * d_depth, 0 * d_depth])
    d_flat = blend.backward(flat, nothing, blended, d_image)
    rows = projected.splat_from_flat()

    def by_splat(values: Array) -> Array:
        scattered = np.zeros((splats.num, *values.shape[1:]))
        scattered[rows] = values
        return scattered

    d_projected = project_backward.ProjectedGradients(
        by_splat(d_flat.means2d), by_splat(d_flat.conics), by_splat(d_flat.opacities), np.zeros((splats.num, 3))
    )
    gradients, _ = project_backward.backward(splats, camera, options, projected, d_projected)
    gradients.means[rows] -= (d_flat.colors[:, 0] / projected.depths[rows] ** 2)[:, None] * camera.w2c[2, :3]
    return value, gradients
