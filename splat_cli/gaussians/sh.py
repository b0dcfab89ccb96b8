"""Real spherical harmonics of degree 0 to 3 on the host: values, and rotation of coefficients.

Order and signs as in the INRIA code: by band, from order -l (sine) to l (cosine).
"""

import numpy as np

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
    turned = np.empty_like(shN)
    begin = 0
    for band in (1, 2, 3):
        end = begin + 2 * band + 1
        if end > shN.shape[1]:
            break
        before, after = (_bands(where)[:, begin:end] for where in (directions @ rotation, directions))
        matrix = np.linalg.lstsq(after, before, rcond=None)[0]
        turned[:, begin:end] = np.einsum("jk,nkc->njc", matrix, shN[:, begin:end])
        begin = end
    return turned


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
