"""Similarity transforms of splats: scale, rotation (also of harmonics), translation. Transformed splats have no origin.

Order and signs of the real spherical harmonics as in the INRIA code: by band, from order -l (sine) to l (cosine).
"""

import dataclasses
from collections.abc import Iterable

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.scene.georeferenced import is_relative, point_of
from splat_cli.scene.quaternion import quat_from_matrix

_C1 = 0.4886025119029199
_C2 = (1.0925484305920792, 0.31539156525252005, 0.5462742152960396)
_C3 = (0.5900435899266435, 2.890611442640554, 0.4570457994644658, 0.3731763325901154, 1.445305721320277)

_ODD_AXES = ("y", "z", "x", "xy", "yz", "", "xz", "", "y", "xyz", "y", "z", "x", "z", "x")
"""Axes in which each value of `_bands` is an odd function."""


def rotate_sh(shN: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """Coefficients [N, K, 3] after a rotation [3, 3] of the scene.

    A rotation mixes coefficients within a band. The matrix of a band is fitted to its values in 64 directions before
    and after the rotation, which determine it.
    """
    directions = np.random.default_rng(0).normal(size=(64, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    count, begin = shN.shape[1], 0
    mixing = np.zeros((count, count))
    for band in (1, 2, 3):
        end = begin + 2 * band + 1
        if end > count:
            break
        before, after = (_bands(where)[:, begin:end] for where in (directions @ rotation, directions))
        mixing[begin:end, begin:end] = np.linalg.lstsq(after, before, rcond=None)[0].T
        begin = end
    # one product for all channels: several times as fast as one per band
    rows: np.ndarray = shN.reshape(len(shN), 3 * count) @ np.kron(mixing, np.eye(3)).astype(shN.dtype)
    return rows.reshape(shN.shape)


def flip_sh(shN: np.ndarray, signs: tuple[int, int, int]) -> np.ndarray:
    """Coefficients [N, K, 3] after the axes x, y, z are multiplied by `signs`, each 1 or -1."""
    sign = dict(zip("xyz", signs, strict=True))
    factors = [np.prod([sign[axis] for axis in axes]) for axes in _ODD_AXES[: shN.shape[1]]]
    return shN * np.array(factors, np.float32)[:, None]


def _bands(directions: np.ndarray) -> np.ndarray:
    """Values [D, 15] of bands 1 to 3 in directions [D, 3], unit length."""
    x, y, z = directions.T
    xx, yy, zz = x * x, y * y, z * z
    values = [
        -_C1 * y,
        _C1 * z,
        -_C1 * x,
        _C2[0] * x * y,
        -_C2[0] * y * z,
        _C2[1] * (2 * zz - xx - yy),
        -_C2[0] * x * z,
        _C2[2] * (xx - yy),
        -_C3[0] * y * (3 * xx - yy),
        _C3[1] * x * y * z,
        -_C3[2] * y * (4 * zz - xx - yy),
        _C3[3] * z * (2 * zz - 3 * xx - 3 * yy),
        -_C3[2] * x * (4 * zz - xx - yy),
        _C3[4] * z * (xx - yy),
        -_C3[0] * x * (xx - 3 * yy),
    ]
    return np.stack(values, axis=1)


_NOWHERE = (0.0, 0.0, 0.0)


def with_origin(splats: SplatArrays, origin: Iterable[float]) -> SplatArrays:
    """Splats in the coordinates of a scene relative to `origin` x y z (scene/georeferenced.py).

    Splats with an origin are moved by the difference. Splats without one are moved by `origin` if they are in
    geographic coordinates. If the scene has no origin, splats are not moved.
    """
    wanted = point_of(origin)
    if not any(wanted):
        return splats
    offset = np.subtract(splats.origin, wanted)
    if not any(splats.origin) and is_relative(splats.means, np.array(wanted)):
        offset = np.zeros(3)
    means = (splats.means + offset).astype(np.float32) if offset.any() else splats.means
    return dataclasses.replace(splats, means=means, origin=wanted)


def scaled(splats: SplatArrays, factor: float) -> SplatArrays:
    """The splats scaled by `factor` about the origin."""
    means = splats.means * np.float32(factor)
    return dataclasses.replace(resized(splats, factor), means=means, origin=_NOWHERE)


def resized(splats: SplatArrays, factor: float) -> SplatArrays:
    """The splats `factor` times as large, at the same positions."""
    return dataclasses.replace(splats, log_scales=splats.log_scales + np.float32(np.log(factor)))


def rotated(splats: SplatArrays, rotation: np.ndarray) -> SplatArrays:
    """The splats rotated about the origin by a matrix [3, 3], with their view-dependent colours."""
    return dataclasses.replace(
        splats,
        means=(splats.means @ rotation.T).astype(np.float32),
        quats=_multiplied(quat_from_matrix(rotation), splats.quats).astype(np.float32),
        shN=rotate_sh(splats.shN, rotation),
        origin=_NOWHERE,
    )


def flipped(splats: SplatArrays, signs: tuple[int, int, int]) -> SplatArrays:
    """The splats with the axes x, y, z multiplied by signs, 1 or -1; exact. An odd number of -1 mirrors the scene."""
    x, y, z = signs
    return dataclasses.replace(
        splats,
        means=splats.means * np.array(signs, np.float32),
        quats=splats.quats * np.array([1, y * z, x * z, x * y], np.float32),
        shN=flip_sh(splats.shN, signs),
    )


def translated(splats: SplatArrays, offset: tuple[float, float, float]) -> SplatArrays:
    """The splats translated by `offset`, world units."""
    return dataclasses.replace(splats, means=(splats.means + np.array(offset)).astype(np.float32), origin=_NOWHERE)


def rotation_about_axes(degrees: tuple[float, float, float]) -> np.ndarray:
    """Rotation matrix [3, 3] about the fixed axes x, then y, then z."""
    x, y, z = np.radians(degrees)
    about_x = np.array([[1, 0, 0], [0, np.cos(x), -np.sin(x)], [0, np.sin(x), np.cos(x)]])
    about_y = np.array([[np.cos(y), 0, np.sin(y)], [0, 1, 0], [-np.sin(y), 0, np.cos(y)]])
    about_z = np.array([[np.cos(z), -np.sin(z), 0], [np.sin(z), np.cos(z), 0], [0, 0, 1]])
    return about_z @ about_y @ about_x


def angles_about_axes(rotation: np.ndarray) -> tuple[float, float, float]:
    """Angles about x, y, z, degrees, with which `rotation_about_axes` gives the matrix [3, 3]."""
    x = np.arctan2(rotation[2, 1], rotation[2, 2])
    y = np.arctan2(-rotation[2, 0], np.hypot(rotation[2, 1], rotation[2, 2]))
    z = np.arctan2(rotation[1, 0], rotation[0, 0])
    return float(np.degrees(x)), float(np.degrees(y)), float(np.degrees(z))


def _multiplied(quat: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Products [N, 4] of a quaternion wxyz [4] with others [N, 4], which are applied first."""
    w, vector = quat[0], quat[1:]
    other_w, other_vectors = others[:, :1], others[:, 1:]
    real = w * other_w - other_vectors @ vector[:, None]
    return np.concatenate([real, w * other_vectors + other_w * vector + np.cross(vector, other_vectors)], axis=1)
