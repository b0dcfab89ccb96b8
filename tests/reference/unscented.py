"""Splats to the image plane by the unscented transform, for any lens: 3DGUT (Wu et al. 2025), section 3.2 and 4.1.

Sigma points and weights are those of Julier and Uhlmann for a Gaussian of n = 3 dimensions with alpha, beta, kappa.
Dilation, opacity compensation, colours and touched tiles are those of project.py; depths are distances.
"""

from dataclasses import replace

import numpy as np

from tests.reference import sh
from tests.reference.inputs import Camera, Splats
from tests.reference.lens import Lens, pixels
from tests.reference.project import (
    MIN_OPACITY,
    NEAR,
    Options,
    Projected,
    camera_center,
    quat_lengths,
    rotation_matrices,
    sh_coefficients,
)
from tests.reference.project_backward import ProjectedGradients
from tests.reference.tiles import tile_minima

Array = np.ndarray

ALPHA, BETA, KAPPA, N = 1.0, 2.0, 0.0, 3
LAMBDA = ALPHA**2 * (N + KAPPA) - N


def image_moments(splats: Splats, camera: Camera, lens: Lens) -> tuple[Array, Array]:
    """Mean [N, 2] and covariance [N, 2, 2] of the images of the sigma points, px; around the whole of a sphere."""
    rotations = rotation_matrices(splats.quats / quat_lengths(splats)[:, None])
    roots = rotations * np.exp(splats.log_scales)[:, None, :]  # covariance = roots roots^T
    offsets = np.sqrt(N + LAMBDA) * roots.transpose(2, 0, 1)
    points = splats.means + np.concatenate([np.zeros((1, splats.num, 3)), offsets, -offsets])
    images = pixels(lens, camera, points @ camera.w2c[:3, :3].T + camera.w2c[:3, 3])
    if lens.model == "EQUIRECTANGULAR":
        period = 2 * np.pi * camera.fx
        images[..., 0] -= period * np.round((images[..., 0] - images[0, :, 0]) / period)
    weights = np.full(2 * N + 1, 1 / (2 * (N + LAMBDA)))
    mean_weights, covariance_weights = weights.copy(), weights.copy()
    mean_weights[0] = LAMBDA / (N + LAMBDA)
    covariance_weights[0] = mean_weights[0] + 1 - ALPHA**2 + BETA
    means = np.einsum("s,sni->ni", mean_weights, images)
    return means, np.einsum("s,sni,snj->nij", covariance_weights, images - means, images - means)


def forward(splats: Splats, camera: Camera, lens: Lens, options: Options) -> Projected:
    """Projected splats; colours as in project.py. A splat around the camera, or the axis behind it, is invisible."""
    means2d, covariances = image_moments(splats, camera, lens)
    dilated = covariances + options.dilation * np.eye(2)
    ratios = np.linalg.det(covariances) / np.linalg.det(dilated)
    conics = np.linalg.inv(dilated)[:, [0, 0, 1], [0, 1, 1]]
    sigmoids = 1 / (1 + np.exp(-splats.logit_opacities))
    opacities = sigmoids * np.sqrt(np.maximum(ratios, 0)) if options.antialias else sigmoids
    offsets = splats.means - camera_center(camera)
    distances = np.linalg.norm(offsets, axis=1)
    raw = 0.5 + sh.forward(offsets / distances[:, None], sh_coefficients(splats, options.sh_degree))
    slack = tile_minima(means2d, conics, camera.width, camera.height) - 2 * np.log(255 * opacities)[:, None, None]
    angles = np.arccos(offsets @ camera.w2c[2, :3] / distances)
    rotations = rotation_matrices(splats.quats / quat_lengths(splats)[:, None])
    away = np.einsum("nij,ni->nj", rotations, offsets) / np.exp(splats.log_scales)  # in standard deviations
    axis = np.einsum("nij,i->nj", rotations, camera.w2c[2, :3]) / np.exp(splats.log_scales)
    behind = np.maximum(-(away * axis).sum(axis=1) / (axis**2).sum(axis=1), 0) * (lens.model != "EQUIRECTANGULAR")
    is_outside = ((away + behind[:, None] * axis) ** 2).sum(axis=1) > N + LAMBDA
    visible = (
        is_outside
        & (distances > NEAR)
        & (angles < lens.cull_angle)
        & (opacities > MIN_OPACITY)
        & (slack <= 0).any(axis=(1, 2))
    )
    return Projected(distances, means2d, conics, opacities, np.maximum(raw, 0), visible, slack)


def backward(splats: Splats, camera: Camera, lens: Lens, options: Options, weights: ProjectedGradients) -> Splats:
    """Gradients, by central differences, of the sum of `weights` times the outputs of `forward`."""

    def losses(changed: Splats) -> Array:
        projected = forward(changed, camera, lens, options)
        outputs = ((getattr(projected, name), weight) for name, weight in vars(weights).items())
        return sum((values * weight).reshape(splats.num, -1).sum(axis=1) for values, weight in outputs)

    gradients = Splats(**{name: np.zeros_like(values) for name, values in splats.items()})
    for name, values in splats.items():
        flat = values.reshape(splats.num, -1)
        for column in range(flat.shape[1]):
            step = np.zeros_like(flat)
            step[:, column] = 1e-5 * np.maximum(np.abs(flat[:, column]), 0.1)
            above, below = (replace(splats, **{name: (flat + s * step).reshape(values.shape)}) for s in (1, -1))
            difference = (losses(above) - losses(below)) / (2 * step[:, column])
            getattr(gradients, name).reshape(splats.num, -1)[:, column] = difference
    return gradients
