"""Rotations as quaternions (wxyz), matrices and vectors; poses from rotations and camera centres."""

from collections.abc import Sequence

import numpy as np

_ROTATION_TOLERANCE = 1e-3


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


def rotation_from_vector(vector: np.ndarray) -> np.ndarray:
    """The rotation [3, 3] about `vector` [3] by its length, radians (Rodrigues' formula)."""
    angle = float(np.linalg.norm(vector))
    x, y, z = vector
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    a, b = np.sinc(angle / np.pi), 0.5 * np.sinc(angle / (2 * np.pi)) ** 2  # sin(a) / a and (1 - cos(a)) / a^2
    return np.eye(3) + a * cross + b * cross @ cross


def vector_from_rotation(rotation: np.ndarray) -> np.ndarray:
    """The vector [3] of `rotation_from_vector`, for rotations [3, 3] by less than half a turn."""
    x, y, z = rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1]
    sine, cosine = np.linalg.norm([x, y, z]) / 2, (np.trace(rotation) - 1) / 2
    angle = float(np.arctan2(sine, cosine))
    return np.array([x, y, z]) / (2 * np.sinc(angle / np.pi))


def is_rotation(matrix: np.ndarray) -> bool:
    """Whether a matrix [3, 3] is a rotation, with a tolerance of 1e-3."""
    if not np.isfinite(matrix).all() or np.abs(matrix).max() > 2:
        return False
    orthogonal = np.allclose(matrix @ matrix.T, np.eye(3), atol=_ROTATION_TOLERANCE)
    return bool(orthogonal and np.linalg.det(matrix) > 0)


def nearest_rotation(matrix: np.ndarray) -> np.ndarray:
    """The rotation nearest to a matrix [3, 3], by least squares."""
    u, _, vt = np.linalg.svd(matrix)
    return u @ np.diag([1.0, 1.0, np.linalg.det(u @ vt)]) @ vt


def world_to_camera(rotation: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Pose w2c, float64 [4, 4], of a camera at `center` [3] whose axes are the rows of `rotation` [3, 3]."""
    w2c = np.eye(4)
    w2c[:3, :3] = rotation
    w2c[:3, 3] = -w2c[:3, :3] @ center
    return w2c


def camera_center(w2c: np.ndarray) -> np.ndarray:
    """Position in world coordinates, float64 [3], of a camera with the pose w2c float64 [4, 4]."""
    return -w2c[:3, :3].T @ w2c[:3, 3]
