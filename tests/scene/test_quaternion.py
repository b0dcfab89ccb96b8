"""Rotation matrices: recognition, and the rotation nearest to a matrix."""

import numpy as np
import pytest

from splat_cli.scene.quaternion import is_rotation, nearest_rotation

QUARTER = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("matrix", "nearest"),
    [
        (np.diag([3, 2, 1]), np.eye(3)),
        (np.diag([1, 0.5, -0.1]), np.eye(3)),  # a rotation cannot mirror: the smallest axis flips
        (np.diag([-1, -0.5, 0.1]), np.diag([-1, -1, 1])),
        (np.diag([-0.1, -0.5, -1]), np.diag([1, -1, -1])),
        (2 * np.array(QUARTER), QUARTER),
        ([[0, -2, 0], [1, 0, 0], [0, 0, -0.02]], QUARTER),
    ],
)
def test_nearest_rotation(matrix, nearest):
    found = nearest_rotation(np.array(matrix, float))
    np.testing.assert_allclose(found, nearest, atol=1e-12)
    assert np.linalg.det(found) == pytest.approx(1)


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        (np.eye(3), True),
        (np.array(QUARTER), True),
        (np.eye(3) + 4e-4, True),
        (np.diag([1, 1, -1]), False),
        (1.001 * np.eye(3), False),
        (np.array([[1, 0.002, 0], [0, 1, 0], [0, 0, 1]]), False),
        (np.full((3, 3), np.nan), False),
        (np.full((3, 3), 1e200), False),
    ],
)
def test_is_rotation(matrix, expected):
    assert is_rotation(matrix) is expected
