"""Gradients of project.py with respect to raw parameters and camera: the chain rule in matrix form.

Matrix derivatives as in Petersen and Pedersen, "The Matrix Cookbook", sections 2.1 and 2.2.
"""

from dataclasses import dataclass

import numpy as np

from tests.reference import distortion, sh
from tests.reference.inputs import Camera, Splats
from tests.reference.project import Geometry, Options, Projected, intermediates, quat_lengths, sh_coefficients

Array = np.ndarray


@dataclass(frozen=True)
class ProjectedGradients:
    """Gradients of a loss with respect to the outputs of `project.forward`, N rows each."""

    means2d: Array  # [N, 2]
    conics: Array  # [N, 3] the off-diagonal b counted once
    opacities: Array  # [N] of the compensated opacity
    colors: Array  # [N, 3]

    def __getitem__(self, rows: Array) -> "ProjectedGradients":
        return ProjectedGradients(self.means2d[rows], self.conics[rows], self.opacities[rows], self.colors[rows])


def _quat_backward(unit_quats: Array, d_rotations: Array) -> Array:
    """Gradient [N, 4] of the unit quaternion, with entries as free variables."""
    w, x, y, z = unit_quats.T
    (g00, g01, g02), (g10, g11, g12), (g20, g21, g22) = np.moveaxis(d_rotations, 0, -1)
    d_w = x * (g21 - g12) + y * (g02 - g20) + z * (g10 - g01)
    d_x = w * (g21 - g12) - 2 * x * (g11 + g22) + y * (g01 + g10) + z * (g02 + g20)
    d_y = w * (g02 - g20) + x * (g01 + g10) - 2 * y * (g00 + g22) + z * (g12 + g21)
    d_z = w * (g10 - g01) + x * (g02 + g20) + y * (g12 + g21) - 2 * z * (g00 + g11)
    return 2 * np.stack([d_w, d_x, d_y, d_z], axis=1)


def _normalize_backward(units: Array, lengths: Array, d_units: Array) -> Array:
    """Gradient with respect to v of v / |v|: the part of d_units across v, shortened by |v|."""
    return (d_units - units * (units * d_units).sum(axis=1, keepdims=True)) / lengths[:, None]


def covariance2d_backward(geometry: Geometry, d_conics: Array, d_compensations: Array) -> Array:
    """Gradient [N, 2, 2], symmetric, with respect to the covariance before dilation.

    d(P^-1) = -P^-1 dP P^-1, and with r = det C / det P (P = C + dilation I), d ln r = <C^-1 - P^-1, dC>.
    """
    a, b, c = d_conics.T
    symmetric = np.moveaxis(np.array([[a, b / 2], [b / 2, c]]), -1, 0)
    d_covariances = -geometry.conics @ symmetric @ geometry.conics
    thick = (geometry.compensations > 0) & (d_compensations != 0)
    inverses = np.linalg.inv(geometry.covariances2d[thick])
    factors = 0.5 * (geometry.compensations * d_compensations)[thick, None, None]
    d_covariances[thick] += factors * (inverses - geometry.conics[thick])
    return d_covariances


def _distortion_backward(
    geometry: Geometry, camera: Camera, d_jacobians: Array, d_means2d: Array
) -> tuple[Array, Array]:
    """Gradients with respect to the clamped slopes [N, 2] and to k1 and k2 [2], through J and the projected means."""
    focal = np.diag([camera.fx, camera.fy])
    slopes = geometry.positions[:, :2] / geometry.positions[:, 2:]
    d_factors = (d_means2d @ focal * slopes).sum(axis=1)
    d_distortions = focal @ d_jacobians @ geometry.pinhole_jacobians.transpose(0, 2, 1)
    return distortion.backward(geometry.slopes, camera, d_factors, d_distortions)


def _mean2d_backward(geometry: Geometry, camera: Camera, d_jacobians: Array, d_means2d: Array) -> Array:
    """Gradient [N, 3] of the camera-space position, through J and the projected mean; a clamped slope is a constant."""
    z = geometry.positions[:, 2:]
    focal = np.diag([camera.fx, camera.fy])
    d_pinhole = distortion.jacobians(geometry.slopes, camera).transpose(0, 2, 1) @ focal @ d_jacobians
    d_slopes, _ = _distortion_backward(geometry, camera, d_jacobians, d_means2d)
    d_slopes -= d_pinhole[:, :, 2] / z
    d_slopes = np.where(geometry.slope_clamped, 0, d_slopes)
    d_slopes += distortion.factors(geometry.slopes, camera)[:, None] * (d_means2d @ focal)
    d_inverse_z = np.trace(d_pinhole[:, :, :2], axis1=1, axis2=2) - (geometry.slopes * d_pinhole[:, :, 2]).sum(axis=1)
    d_z = -(d_slopes * geometry.positions[:, :2]).sum(axis=1) / z[:, 0] ** 2 - d_inverse_z / z[:, 0] ** 2
    return np.concatenate([d_slopes / z, d_z[:, None]], axis=1)


@dataclass(frozen=True)
class _ShapeGradients:
    jacobians: Array  # [N, 2, 3] of J
    log_scales: Array
    quats: Array
    rotation: Array  # [3, 3] of the camera's rotation, through the covariances


def _shape_backward(
    seen: Splats, geometry: Geometry, camera: Camera, d_conics: Array, d_compensations: Array
) -> _ShapeGradients:
    """Through cov2d = T Sigma T^T with T = J W and Sigma = (R S)(R S)^T."""
    d_covariances2d = covariance2d_backward(geometry, d_conics, d_compensations)
    d_world_to_plane = 2 * d_covariances2d @ geometry.world_to_plane @ geometry.covariances
    d_covariances = geometry.world_to_plane.transpose(0, 2, 1) @ d_covariances2d @ geometry.world_to_plane
    d_axes = 2 * d_covariances @ (geometry.rotations * geometry.scales[:, None, :])
    d_unit_quats = _quat_backward(geometry.unit_quats, d_axes * geometry.scales[:, None, :])
    return _ShapeGradients(
        jacobians=d_world_to_plane @ camera.w2c[:3, :3].T,
        log_scales=(d_axes * geometry.rotations).sum(axis=1) * geometry.scales,
        quats=_normalize_backward(geometry.unit_quats, quat_lengths(seen), d_unit_quats),
        rotation=np.einsum("nij,nik->jk", geometry.jacobians, d_world_to_plane),
    )


def _color_backward(seen: Splats, geometry: Geometry, sh_degree: int, d_colors: Array) -> tuple[Array, Array]:
    """Gradients of the used coefficients [N, K, 3] and of the splat's offset from the camera's centre [N, 3]."""
    d_raw_colors = np.where(geometry.raw_colors > 0, d_colors, 0)
    d_coefficients, d_directions = sh.backward(geometry.directions, sh_coefficients(seen, sh_degree), d_raw_colors)
    distances = np.linalg.norm(geometry.offsets, axis=1)
    return d_coefficients, _normalize_backward(geometry.directions, distances, d_directions)


def d_distortion(
    splats: Splats, camera: Camera, options: Options, projected: Projected, d_projected: ProjectedGradients
) -> Array:
    """Gradient [2] of the camera's k1 and k2."""
    seen, d_seen = splats[projected.visible], d_projected[projected.visible]
    geometry = intermediates(seen, camera, options)
    d_compensations = d_seen.opacities * geometry.sigmoids * options.antialias
    d_shape = _shape_backward(seen, geometry, camera, d_seen.conics, d_compensations)
    return _distortion_backward(geometry, camera, d_shape.jacobians, d_seen.means2d)[1]


def backward(
    splats: Splats, camera: Camera, options: Options, projected: Projected, d_projected: ProjectedGradients
) -> tuple[Splats, Array]:
    """Gradients of the raw parameters (zero for invisible splats) and of the first three rows of w2c [3, 4].

    The twelve entries of w2c are free variables; the camera's centre is -R^T t.
    """
    rows = projected.visible
    seen, d_seen = splats[rows], d_projected[rows]
    geometry = intermediates(seen, camera, options)
    sigmoids = geometry.sigmoids
    d_compensations = d_seen.opacities * sigmoids * options.antialias
    d_shape = _shape_backward(seen, geometry, camera, d_seen.conics, d_compensations)
    d_coefficients, d_offsets = _color_backward(seen, geometry, options.sh_degree, d_seen.colors)

    d_positions = _mean2d_backward(geometry, camera, d_shape.jacobians, d_seen.means2d)

    gradients = Splats(**{name: np.zeros_like(values) for name, values in splats.items()})
    gradients.means[rows] = d_positions @ camera.w2c[:3, :3] + d_offsets
    gradients.log_scales[rows] = d_shape.log_scales
    gradients.quats[rows] = d_shape.quats
    gradients.logit_opacities[rows] = d_seen.opacities * geometry.compensations * sigmoids * (1 - sigmoids)
    gradients.sh0[rows] = d_coefficients[:, 0]
    gradients.shN[rows, : d_coefficients.shape[1] - 1] = d_coefficients[:, 1:]

    d_center = -d_offsets.sum(axis=0)
    d_rotation = d_shape.rotation + d_positions.T @ seen.means - np.outer(camera.w2c[:3, 3], d_center)
    d_translation = d_positions.sum(axis=0) - camera.w2c[:3, :3] @ d_center
    return gradients, np.concatenate([d_rotation, d_translation[:, None]], axis=1)
