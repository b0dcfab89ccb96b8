"""Distances between neighbouring points, by cuda_src/knn.cu."""

import numpy as np

from splat_cli.device import Backend, check_arrays
from splat_cli.device.launch import ceil_div
from splat_cli.gaussians.morton import curve_positions

LEAF = 16
FAN = 8
THREADS = 128


def neighbor_distances(backend: Backend, points: np.ndarray) -> np.ndarray:
    """Root mean square distance of each point to its 3 nearest others (or fewer, if there are fewer).

    points: float32 [P, 3], finite, world units. Returns float32 [P]. ShapeError for other arrays.
    """
    check_arrays("knn", points=(points, np.float32, "P 3"))
    num_points = len(points)
    if num_points == 0:
        return np.zeros(0, np.float32)
    order = np.argsort(curve_positions(points), kind="stable")
    along = points[order]
    levels = _boxes(along)
    begins = np.cumsum([0, *(len(level) for level in levels)])[:-1].astype(np.int32)
    mean_squared = backend.xp.empty(num_points, np.float32)
    backend.kernel("knn", "knn")(
        (ceil_div(num_points, THREADS),),
        (THREADS,),
        backend.upload(along),
        backend.upload(np.concatenate(levels)),
        backend.upload(begins),
        num_points,
        len(levels),
        mean_squared,
    )
    distances = np.empty(num_points, np.float32)
    distances[order] = np.sqrt(backend.download(mean_squared))
    return distances


def _boxes(points: np.ndarray) -> list[np.ndarray]:
    """Bounding boxes [B, 6] (low, high) of LEAF consecutive points, of FAN such boxes, ... up to a single one."""
    levels = [_merged(points, points, LEAF)]
    while len(levels[-1]) > 1:
        levels.append(_merged(levels[-1][:, :3], levels[-1][:, 3:], FAN))
    return levels


def _merged(low: np.ndarray, high: np.ndarray, count: int) -> np.ndarray:
    """Bounding boxes of every `count` consecutive boxes; the last box is repeated to fill its group."""
    missing = -len(low) % count
    low, high = (np.pad(corner, ((0, missing), (0, 0)), mode="edge") for corner in (low, high))
    return np.concatenate([low.reshape(-1, count, 3).min(axis=1), high.reshape(-1, count, 3).max(axis=1)], axis=1)
