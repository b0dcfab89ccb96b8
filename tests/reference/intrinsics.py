"""Intrinsics as offsets (log factor, x, y, k1, k2), and gradients with respect to these.

With f = factor f0, the covariance before dilation is proportional to the squared factor, and a projected mean moves by
its distance from the principal point. Clamped slopes count as constant.
"""

from dataclasses import replace

import numpy as np

from tests.reference.inputs import Camera, Splats
from tests.reference.project import Options, Projected, intermediates
from tests.reference.project_backward import ProjectedGradients, covariance2d_backward, d_distortion

Array = np.ndarray


def moved(camera: Camera, offset: Array) -> Camera:
    """The camera with its focal lengths times exp(offset[0]), its principal point shifted in mean focal lengths.

    The last two values of an offset [5] are added to k1 and k2.
    """
    factor, focal = np.exp(offset[0]), (camera.fx + camera.fy) / 2
    return replace(
        camera,
        fx=factor * camera.fx,
        fy=factor * camera.fy,
        cx=camera.cx + focal * offset[1],
        cy=camera.cy + focal * offset[2],
        k1=camera.k1 + sum(offset[3:4]),
        k2=camera.k2 + sum(offset[4:5]),
    )


def d_camera(
    splats: Splats, camera: Camera, options: Options, projected: Projected, d_projected: ProjectedGradients
) -> Array:
    """Gradient [5] of the logarithm of the focal lengths, the principal point (px), k1 and k2."""
    rows = projected.visible
    seen, d_seen = splats[rows], d_projected[rows]
    geometry = intermediates(seen, camera, options)
    d_compensations = d_seen.opacities * geometry.sigmoids * options.antialias
    d_covariances = covariance2d_backward(geometry, d_seen.conics, d_compensations)
    from_center = projected.means2d[rows] - [camera.cx, camera.cy]
    d_focal = 2 * (d_covariances * geometry.covariances2d).sum() + (d_seen.means2d * from_center).sum()
    d_k1_k2 = d_distortion(splats, camera, options, projected, d_projected)
    return np.array([d_focal, *d_seen.means2d.sum(axis=0), *d_k1_k2])
