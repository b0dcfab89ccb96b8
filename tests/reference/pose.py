"""Poses as offsets (rotation, translation) from the original camera, and their gradients, with matrices.

The exponential map follows Sola et al. 2018, "A micro Lie theory for state estimation in robotics", equation 132.
"""

import numpy as np

Array = np.ndarray


def cross_matrix(v: Array) -> Array:
    x, y, z = v
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


def exponential(turn: Array) -> Array:
    """The rotation by the power series of the matrix exponential."""
    result, term = np.eye(3), np.eye(3)
    for n in range(1, 30):
        term = term @ cross_matrix(turn) / n
        result = result + term
    return result


def moved(w2c: Array, offset: Array) -> Array:
    """[4, 4]: R = exp(turn) R0, t = exp(turn) (t0 + shift)."""
    result, rotation = np.eye(4), exponential(offset[:3])
    result[:3, :3], result[:3, 3] = rotation @ w2c[:3, :3], rotation @ (w2c[:3, 3] + offset[3:])
    return result


def d_axes(w2c: Array, d_w2c: Array) -> Array:
    """Gradient [6] of the camera's rotation about its centre and of its shift, in its axes, from d_w2c [3, 4]."""
    d_turn = [float((d_w2c * (cross_matrix(axis) @ w2c[:3])).sum()) for axis in np.eye(3)]
    return np.array([*d_turn, *d_w2c[:, 3]])


def d_offset(w2c: Array, offset: Array, d_w2c: Array) -> Array:
    """Gradient [6] of the offset from the gradient [3, 4] of moved(w2c, offset); uses the exponential's series."""
    turn, start = offset[:3], np.column_stack([w2c[:3, :3], w2c[:3, 3] + offset[3:]])
    d_turn = np.zeros(3)
    for k, axis in enumerate(np.eye(3)):  # d exp(v) = sum over n of sum over i of v^i [axis] v^(n - 1 - i) / n!
        powers = [np.linalg.matrix_power(cross_matrix(turn), n) for n in range(15)]
        derivative, factorial = np.zeros((3, 3)), 1.0
        for n in range(1, 15):
            factorial *= n
            derivative += sum(powers[i] @ cross_matrix(axis) @ powers[n - 1 - i] for i in range(n)) / factorial
        d_turn[k] = (d_w2c * (derivative @ start)).sum()
    return np.concatenate([d_turn, exponential(turn).T @ d_w2c[:, 3]])
