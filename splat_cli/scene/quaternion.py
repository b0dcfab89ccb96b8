"""Conversion between quaternions (wxyz) and rotation matrices."""

from collections.abc import Sequence

import numpy as np


def quat_from_matrix(rotation: np.ndarray) -> np.ndarray:
    """The quaternion [4] of length 1, w >= 0, of a rotation matrix [3, 3]."""
    return quats_from_matrices(rotation[None])[0]


def quats_from_matrices(rotations: np.ndarray) -> np.ndarray:
    """The quaternions [N, 4] of length 1, w >= 0, of rotation matrices [N, 3, 3].

    They are the eigenvectors of the largest eigenvalues of Bar-Itzhack's matrices, which is stable for every angle.
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = np.moveaxis(rotations, 0, -1)
    matrices = np.array(
        [
            [xx + yy + zz, zy - yz, xz - zx, yx - xy],
            [zy - yz, xx - yy - zz, xy + yx, xz + zx],
            [xz - zx, xy + yx, yy - xx - zz, yz + zy],
            [yx - xy, xz + zx, yz + zy, zz - xx - yy],
        ]
    )
    quats = np.linalg.eigh(np.moveaxis(matrices, -1, 0))[1][:, :, -1]
    return np.where(quats[:, :1] < 0, -quats, quats)


def matrix_from_quat(quat: Sequence[float] | np.ndarray) -> np.ndarray:
    """Rotation, float64 [3, 3], of a quaternion of any length; not finite where it is zero or not finite."""
    with np.errstate(all="ignore"):
        w, x, y, z = np.array(quat, np.float64) / np.linalg.norm(quat)
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip


def camera_center(w2c: np.ndarray) -> np.ndarray:
    """Position in world coordinates, float64 [3], of a camera with the pose w2c float64 [4, 4]."""
    return -w2c[:3, :3].T @ w2c[:3, 3]
