"""The tiles of 16x16 px that a splat touches: the rule is in docs/method.md, "Rules of the projection"."""

import numpy as np

Array = np.ndarray

TILE = 16


def tile_minima(means2d: Array, conics: Array, width: int, height: int) -> Array:
    """Minimum of d^T conic d [N, tiles_y, tiles_x] over the rectangle of each tile's pixel centres.

    The form is convex: the minimum is 0 if the rectangle contains the mean. Otherwise it is on one of the four edges,
    at the edge's minimum or at the end nearest to it.
    """
    a, b, c = conics.T[:, :, None, None]
    left = np.arange(0, width, TILE) + 0.5 - means2d[:, 0, None, None]
    right = np.minimum(np.arange(0, width, TILE) + TILE, width) - 0.5 - means2d[:, 0, None, None]
    top = (np.arange(0, height, TILE) + 0.5)[:, None] - means2d[:, 1, None, None]
    bottom = (np.minimum(np.arange(0, height, TILE) + TILE, height) - 0.5)[:, None] - means2d[:, 1, None, None]

    def form(dx: Array, dy: Array) -> Array:
        return a * dx * dx + 2 * b * dx * dy + c * dy * dy

    edges = [form(dx, np.clip(-b * dx / c, top, bottom)) for dx in (left, right)]
    edges += [form(np.clip(-b * dy / a, left, right), dy) for dy in (top, bottom)]
    inside = (left <= 0) & (right >= 0) & (top <= 0) & (bottom >= 0)
    return np.where(inside, 0, np.minimum.reduce(edges))
