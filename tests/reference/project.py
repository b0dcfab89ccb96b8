"""Splats to the image plane by elliptical weighted averaging.

The covariance follows Zwicker et al. 2001, "EWA Volume Splatting", equation 31, in the form of Kerbl et al. 2023,
section 4; the opacity compensation follows Yu et al. 2024, "Mip-Splatting", equation 9. The exact rules of culling,
clamping and touched tiles are in docs/method.md. Values that float32 cannot hold count as not finite, and a
splat with a non-finite projection is invisible. A quaternion of zeros means no rotation.
"""

from dataclasses import dataclass

import numpy as np

from tests.reference import distortion, sh
from tests.reference.blend import Flat
from tests.reference.inputs import Camera, Splats
from tests.reference.tiles import tile_minima

Array = np.ndarray

NEAR = 0.001
MIN_OPACITY = 1 / 255
CLAMP_MARGIN = 0.15  # relative to the image's size
FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Options:
    antialias: bool = False
    sh_degree: int = 3

    @property
    def dilation(self) -> float:
        """Pixels^2: as in Mip-Splatting, or as in common viewers."""
        return 0.1 if self.antialias else 0.3


@dataclass(frozen=True)
class Projected:
    """Rows of invisible splats are zero."""

    depths: Array  # [N] camera z
    means2d: Array  # [N, 2] pixels
    conics: Array  # [N, 3] inverse of the dilated covariance: a, b, c of [[a, b], [b, c]]
    opacities: Array  # [N] compensated
    colors: Array  # [N, 3]
    visible: Array  # bool [N]
    # [N, tiles_y, tiles_x] minimum of d^T conic d over the tile's pixel centres, minus 2 ln(255 o): touched where <= 0
    tile_slack: Array

    @property
    def tiles(self) -> Array:
        return self.visible[:, None, None] & (self.tile_slack <= 0)

    def splat_from_flat(self) -> Array:
        """Indices of the visible splats, nearest first, ties by index."""
        visible = np.flatnonzero(self.visible)
        return visible[np.argsort(self.depths[visible], kind="stable")]

    def by_splat(self, values: Array) -> Array:
        """Values of the visible splats, in the order of `splat_from_flat`, as an array of all splats; others are 0."""
        scattered = np.zeros((len(self.visible), *values.shape[1:]))
        scattered[self.splat_from_flat()] = values
        return scattered

    def flat(self) -> Flat:
        rows = self.splat_from_flat()
        return Flat(self.means2d[rows], self.conics[rows], self.opacities[rows], self.colors[rows])


@dataclass(frozen=True)
class Geometry:
    """Intermediate results for the backward pass."""

    positions: Array  # [N, 3] in camera space
    unit_quats: Array  # [N, 4]
    rotations: Array  # [N, 3, 3]
    scales: Array  # [N, 3]
    covariances: Array  # [N, 3, 3] in world space
    slopes: Array  # [N, 2] x/z and y/z, clamped
    slope_clamped: Array  # bool [N, 2]
    pinhole_jacobians: Array  # [N, 2, 3] d slopes / d position without the clamp, at clamped slopes
    jacobians: Array  # [N, 2, 3] J: of the projected mean, px
    world_to_plane: Array  # [N, 2, 3] J W
    covariances2d: Array  # [N, 2, 2] before dilation
    dilated_dets: Array  # [N] determinant after dilation
    conics: Array  # [N, 2, 2] inverse after dilation
    sigmoids: Array  # [N]
    compensations: Array  # [N]
    offsets: Array  # [N, 3] from the camera's centre
    directions: Array  # [N, 3]
    raw_colors: Array  # [N, 3] before the clamp at 0


def camera_center(camera: Camera) -> Array:
    """-R^T t; uses R^T as the inverse even if R is perturbed (see project_backward.py)."""
    return -camera.w2c[:3, :3].T @ camera.w2c[:3, 3]


def rotation_matrices(unit_quats: Array) -> Array:
    """[N, 4] w x y z of length 1 to [N, 3, 3]."""
    w, x, y, z = unit_quats.T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)


def quat_lengths(splats: Splats) -> Array:
    """[N], never 0."""
    return np.maximum(np.linalg.norm(splats.quats, axis=1), 1e-12)


def _slope_limits(camera: Camera) -> tuple[Array, Array]:
    size = np.array([camera.width, camera.height])
    focal = np.array([camera.fx, camera.fy])
    center = np.array([camera.cx, camera.cy])
    return -(center + CLAMP_MARGIN * size) / focal, ((1 + CLAMP_MARGIN) * size - center) / focal


def sh_coefficients(splats: Splats, sh_degree: int) -> Array:
    return np.concatenate([splats.sh0[:, None], splats.shN], axis=1)[:, : sh.num_bases(sh_degree)]


def pinhole_jacobians(slopes: Array, z: Array) -> Array:
    """[N, 2, 3] derivatives of x/z and y/z with respect to the position, from these slopes."""
    jacobians = np.zeros((len(z), 2, 3))
    jacobians[:, 0, 0], jacobians[:, 0, 2] = 1 / z, -slopes[:, 0] / z
    jacobians[:, 1, 1], jacobians[:, 1, 2] = 1 / z, -slopes[:, 1] / z
    return jacobians


def intermediates(splats: Splats, camera: Camera, options: Options) -> Geometry:
    world_to_camera = camera.w2c[:3, :3]
    positions = splats.means @ world_to_camera.T + camera.w2c[:3, 3]
    unit_quats = splats.quats / quat_lengths(splats)[:, None]
    rotations, scales = rotation_matrices(unit_quats), np.exp(splats.log_scales)
    axes = rotations * scales[:, None, :]
    covariances = axes @ axes.transpose(0, 2, 1)

    z = positions[:, 2]
    true_slopes = positions[:, :2] / z[:, None]
    slopes = np.clip(true_slopes, *_slope_limits(camera))
    pinhole = pinhole_jacobians(slopes, z)
    jacobians = np.diag([camera.fx, camera.fy]) @ distortion.jacobians(slopes, camera) @ pinhole
    world_to_plane = jacobians @ world_to_camera
    covariances2d = world_to_plane @ covariances @ world_to_plane.transpose(0, 2, 1)
    (a, b), (_, c) = np.moveaxis(covariances2d, 0, -1)
    det = (np.cross(*np.moveaxis(world_to_plane @ axes, 1, 0)) ** 2).sum(axis=1)  # a c - b b without cancellation
    dilated_det = det + options.dilation * (a + c) + options.dilation**2
    adjugates = np.moveaxis(np.array([[c + options.dilation, -b], [-b, a + options.dilation]]), -1, 0)

    compensations = np.sqrt(det / dilated_det) if options.antialias else np.ones_like(z)
    offsets = splats.means - camera_center(camera)
    directions = offsets / np.linalg.norm(offsets, axis=1, keepdims=True)
    return Geometry(
        positions=positions,
        unit_quats=unit_quats,
        rotations=rotations,
        scales=scales,
        covariances=covariances,
        slopes=slopes,
        slope_clamped=slopes != true_slopes,
        pinhole_jacobians=pinhole,
        jacobians=jacobians,
        world_to_plane=world_to_plane,
        covariances2d=covariances2d,
        dilated_dets=dilated_det,
        conics=adjugates / dilated_det[:, None, None],
        sigmoids=1 / (1 + np.exp(-splats.logit_opacities)),
        compensations=compensations,
        offsets=offsets,
        directions=directions,
        raw_colors=0.5 + sh.forward(directions, sh_coefficients(splats, options.sh_degree)),
    )


def forward(splats: Splats, camera: Camera, options: Options) -> Projected:
    with np.errstate(all="ignore"):
        geometry = intermediates(splats, camera, options)
        depths = geometry.positions[:, 2]
        slopes = geometry.positions[:, :2] / depths[:, None]
        seen_slopes = distortion.factors(geometry.slopes, camera)[:, None] * slopes
        means2d = seen_slopes * [camera.fx, camera.fy] + [camera.cx, camera.cy]
        conics = geometry.conics[:, [0, 0, 1], [0, 1, 1]]
        opacities = geometry.sigmoids * geometry.compensations
        colors = np.maximum(geometry.raw_colors, 0)
        det = geometry.dilated_dets
        numbers = [depths, means2d, geometry.covariances2d, det, conics, opacities, colors]
        flat_numbers = np.concatenate([values.reshape(splats.num, -1) for values in numbers], axis=1)
        finite = (np.abs(flat_numbers) <= FLOAT32_MAX).all(axis=1)
        minima = tile_minima(means2d, conics, camera.width, camera.height)
        slack = minima - 2 * np.log(255 * opacities)[:, None, None]
        visible = finite & (depths > NEAR) & (det > 0) & (opacities > MIN_OPACITY) & (slack <= 0).any(axis=(1, 2))
    outputs = [depths, means2d, conics, opacities, colors]
    hidden = [np.where(visible.reshape(-1, *[1] * (values.ndim - 1)), values, 0) for values in outputs]
    return Projected(*hidden, visible=visible, tile_slack=slack)
