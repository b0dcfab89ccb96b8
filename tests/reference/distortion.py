"""Radial distortion and its gradients: slopes s = (x/z, y/z) appear at d s with d = 1 + k1 |s|^2 + k2 |s|^4.

d and the Jacobian D of d s with respect to s are evaluated at clamped slopes, as in the projection.
"""

import numpy as np

from tests.reference.inputs import Camera

Array = np.ndarray


def factors(slopes: Array, camera: Camera) -> Array:
    """Factor d [N] at slopes [N, 2]."""
    square = (slopes**2).sum(axis=1)
    return 1 + camera.k1 * square + camera.k2 * square**2


def jacobians(slopes: Array, camera: Camera) -> Array:
    """D [N, 2, 2] = d I + 2 d' s s^T, with d' the derivative with respect to |s|^2."""
    derivatives = camera.k1 + 2 * camera.k2 * (slopes**2).sum(axis=1)
    outer = slopes[:, :, None] * slopes[:, None, :]
    return factors(slopes, camera)[:, None, None] * np.eye(2) + 2 * derivatives[:, None, None] * outer


def backward(slopes: Array, camera: Camera, d_factors: Array, d_jacobians: Array) -> tuple[Array, Array]:
    """Gradients of the slopes [N, 2] and of k1 and k2 [2], from gradients of d [N] and D [N, 2, 2]."""
    square = (slopes**2).sum(axis=1)
    derivatives = camera.k1 + 2 * camera.k2 * square
    d_factors = d_factors + np.trace(d_jacobians, axis1=1, axis2=2)
    d_derivatives = 2 * np.einsum("ni,nij,nj->n", slopes, d_jacobians, slopes)
    d_square = d_factors * derivatives + 2 * camera.k2 * d_derivatives
    symmetric = d_jacobians + d_jacobians.transpose(0, 2, 1)
    d_slopes = 2 * slopes * d_square[:, None] + 2 * derivatives[:, None] * np.einsum("nij,nj->ni", symmetric, slopes)
    d_k1 = (square * d_factors + d_derivatives).sum()
    d_k2 = (square**2 * d_factors + 2 * square * d_derivatives).sum()
    return d_slopes, np.array([d_k1, d_k2])
