"""Distances to the nearest neighbours by comparing every pair, float64."""

import numpy as np


def neighbor_distances(points):
    """Root mean square distance [P] of each point [P, 3] to its 3 nearest neighbours, or to all if there are fewer."""
    points = points.astype(np.float64)
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    nearest = np.sort(squared, axis=1)[:, : min(3, len(points) - 1)]
    return np.sqrt(nearest.mean(axis=1)) if nearest.shape[1] else np.zeros(len(points))
