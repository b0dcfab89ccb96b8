"""Bilateral grids (Wang et al. 2024, "Bilateral Guided Radiance Field Processing", sec. 4.1).

y = x + D (x, 1), with D interpolated in a grid [levels, rows, columns, 3, 4] at the pixel's position and luminance.
Also its gradients and its regulariser.

Computes the weight of every node for every pixel, without searching for the eight nonzero ones.
"""

import numpy as np

Array = np.ndarray

LUMA = np.array([0.299, 0.587, 0.114])


def hats(places: Array, num: int) -> Array:
    """[num, ...] weights of linear interpolation of `num` nodes at a place from 0 to num - 1."""
    return np.maximum(1 - np.abs(places[None] - np.arange(num).reshape(-1, *[1] * places.ndim)), 0)


def hat_slopes(places: Array, num: int) -> Array:
    """[num, ...] derivatives of `hats` with respect to the place."""
    side = np.arange(num).reshape(-1, *[1] * places.ndim) - places[None]
    return np.where(np.abs(side) < 1, np.sign(side), 0.0)


def weights(image: Array, shape: tuple[int, ...]) -> tuple[Array, Array, Array, Array]:
    """Weights of levels [L, H, W], rows [R, H], columns [C, W]; d levels / d luminance [L, H, W]."""
    (height, width), (levels, rows, columns) = image.shape[1:], shape[:3]
    luminance = np.einsum("c,chw->hw", LUMA, image)
    place = np.clip(luminance, 0, 1) * (levels - 1)
    by_row = hats((np.arange(height) + 0.5) / height * (rows - 1), rows)
    by_column = hats((np.arange(width) + 0.5) / width * (columns - 1), columns)
    inside = (luminance > 0) & (luminance < 1)
    return hats(place, levels), by_row, by_column, hat_slopes(place, levels) * (levels - 1) * inside


def forward(image: Array, grid: Array) -> Array:
    """Corrected image [3, H, W]."""
    by_level, by_row, by_column, _ = weights(image, grid.shape)
    matrices = np.einsum("lhw,rh,kw,lrkij->ijhw", by_level, by_row, by_column, grid, optimize=True)
    return image + np.einsum("ijhw,jhw->ihw", matrices[:, :3], image) + matrices[:, 3]


def backward(image: Array, grid: Array, d_changed: Array) -> tuple[Array, Array]:
    """Gradients with respect to the image [3, H, W] and to the grid; the latter has the grid's shape."""
    by_level, by_row, by_column, slopes = weights(image, grid.shape)
    extended = np.concatenate([image, np.ones_like(image[:1])])
    d_matrices = np.einsum("ihw,jhw->ijhw", d_changed, extended)
    by_pixel = by_level[:, None, None] * d_matrices  # [L, 3, 4, H, W]
    d_grid = (by_row @ by_pixel @ by_column.T).transpose(0, 3, 4, 1, 2)
    matrices = np.einsum("lhw,rh,kw,lrkij->ijhw", by_level, by_row, by_column, grid, optimize=True)
    d_image = d_changed + np.einsum("ijhw,ihw->jhw", matrices[:, :3], d_changed)
    changes = np.einsum("lhw,rh,kw,lrkij->ijhw", slopes, by_row, by_column, grid, optimize=True)
    d_luminance = np.einsum("ijhw,ijhw->hw", changes, d_matrices)
    return d_image + LUMA[:, None, None] * d_luminance, d_grid


def roughness(grid: Array) -> float:
    """Sum of the mean squared differences between neighbours in luminance, in rows and in columns."""
    return float(sum((np.diff(grid, axis=axis) ** 2).mean() for axis in range(3)))


def d_roughness(grid: Array) -> Array:
    """Gradient of the regulariser."""
    total = np.zeros_like(grid)
    for axis in range(3):
        difference = np.diff(grid, axis=axis)
        around = [(1, 1) if other == axis else (0, 0) for other in range(grid.ndim)]
        total -= np.diff(np.pad(2 * difference / difference.size, around), axis=axis)
    return total
