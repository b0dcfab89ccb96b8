"""Linear algebra of points and directions, float32 [3, n], one row a coordinate.

Sums over coordinates are written out: a matrix library would start threads beside those of the caller, and NumPy's
reductions take longer. They add from x to z, so that pictures keep their bytes.
"""

import numpy as np


def linear(matrix: np.ndarray) -> np.ndarray:
    """A matrix [3, 3] as `turned` takes it: of a diagonal one, the diagonal [3, 1]."""
    diagonal = np.diag(matrix)
    return diagonal[:, None].copy() if (matrix == np.diag(diagonal)).all() else matrix


def turned(matrix: np.ndarray, points: np.ndarray) -> np.ndarray:
    """`matrix`, from `linear`, times points [3, n]."""
    if matrix.shape[1] == 1:
        return matrix * points
    result = matrix[:, :1] * points[0]
    result += matrix[:, 1:2] * points[1]
    result += matrix[:, 2:] * points[2]
    return result


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Inner products [n] of the columns of [3, n] or [2, n]; either may be [3, 1]."""
    result = a[0] * b[0]
    for row, other in zip(a[1:], b[1:], strict=True):
        result += row * other
    return result


def largest_axis(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether x is the largest coordinate of a point in magnitude; whether y is; bool [n] each. Else z is."""
    x, y, z = np.abs(points)
    along_x = (x >= y) & (x >= z)
    return along_x, ~along_x & (y >= z)
