"""Rotations as quaternions, w x y z."""

import numpy as np


def quat_from_matrix(rotation: np.ndarray) -> np.ndarray:
    """The quaternion [4] of length 1, w >= 0, of a rotation matrix [3, 3].

    It is the eigenvector of the largest eigenvalue of Bar-Itzhack's matrix, which is stable for every angle.
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = rotation
    matrix = np.array(
        [
            [xx + yy + zz, zy - yz, xz - zx, yx - xy],
            [zy - yz, xx - yy - zz, xy + yx, xz + zx],
            [xz - zx, xy + yx, yy - xx - zz, yz + zy],
            [yx - xy, xz + zx, yz + zy, zz - xx - yy],
        ]
    )
    quat = np.linalg.eigh(matrix)[1][:, -1]
    return -quat if quat[0] < 0 else quat
