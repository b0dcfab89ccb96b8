"""Error maps: differences between renders and photographs, as images."""

import numpy as np

FULL_ERROR = 0.2
"""Mean absolute difference of a pixel's channels, 0 to 1, shown in the last colour; larger ones are clamped."""

COLORS = np.array(
    [(0, 0, 4), (59, 15, 112), (140, 41, 129), (222, 73, 104), (254, 159, 109), (252, 253, 191)], np.float64
)
"""Colour map from 0 to FULL_ERROR: six evenly spaced colours of matplotlib's "magma"."""


def error_map(render: np.ndarray, photograph: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """Colour map uint8 [H, W, 3] of the difference of two images; zero where `mask`, uint8 [H, W], is 0."""
    error = np.abs(render.astype(np.float32) - photograph).mean(axis=2) / (255 * FULL_ERROR)
    if mask is not None:
        error = np.where(mask > 0, error, 0)
    places = np.linspace(0, 1, len(COLORS))
    table = np.stack([np.interp(np.linspace(0, 1, 256), places, COLORS[:, c]) for c in range(3)], axis=1)
    return np.rint(table).astype(np.uint8)[np.rint(255 * np.minimum(error, 1)).astype(np.uint8)]


def side_by_side(render: np.ndarray, photograph: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """Photograph, render and their error map, uint8 [H, 3 W + 16, 3]."""
    gap = np.full((len(render), 8, 3), 255, np.uint8)
    return np.concatenate([photograph, gap, render, gap, error_map(render, photograph, mask)], axis=1)
