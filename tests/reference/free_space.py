"""Opacity in free space: a loss of the opacity before given depths, and its gradient by the raw splats."""

from dataclasses import replace

import numpy as np

from tests.reference import blend, project, project_backward
from tests.reference.inputs import Camera, Splats
from tests.reference.project import Options, Projected

Array = np.ndarray
REACH = 0.8


def before(projected: Projected, layers: Array) -> blend.Flat:
    """What is blended: visible splats in the channel of each layer [3] that they are nearer than."""
    nearer = projected.depths[projected.splat_from_flat()][:, None] < layers
    return replace(projected.flat(), colors=nearer.astype(float))


def loss(opacities: Array, pixels: Array, depths: Array, layers: Array, weight: float) -> tuple[float, Array]:
    """Of opacities [3, H, W] before the layers, and its gradient: weight * mean over points and layers of opacity^2.

    A layer counts for the points in whose free space it lies; for the others, its opacity counts as 0.
    """
    counts = layers[:, None] <= REACH * depths
    seen = opacities.reshape(3, -1)[:, pixels] * counts
    d_opacities = np.zeros((3, opacities[0].size))
    d_opacities[:, pixels] = 2 * weight * seen / seen.size
    return float(weight * (seen**2).mean()), d_opacities.reshape(opacities.shape)


def loss_and_gradients(
    splats: Splats, camera: Camera, pixels: Array, depths: Array, layers: Array, weight: float
) -> tuple[float, Splats]:
    projected = project.forward(splats, camera, Options())
    flat, nothing = before(projected, layers), np.zeros(3)
    blended = blend.forward(flat, nothing, camera.width, camera.height)
    value, d_image = loss(blended.image, pixels, depths, layers, weight)
    d_flat = blend.backward(flat, nothing, blended, d_image)

    def by_splat(values: Array) -> Array:
        scattered = np.zeros((splats.num, *values.shape[1:]))
        scattered[projected.splat_from_flat()] = values
        return scattered

    d_projected = project_backward.ProjectedGradients(
        by_splat(d_flat.means2d), by_splat(d_flat.conics), by_splat(d_flat.opacities), np.zeros((splats.num, 3))
    )
    return value, project_backward.backward(splats, camera, Options(), projected, d_projected)[0]
