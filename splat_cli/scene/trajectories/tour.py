"""Order in which a walk visits cameras."""

import numpy as np

_MAX_JUMP = 3.0
"""Maximum median ratio of steps in capture order to distances to the nearest camera, for which the order is kept."""
_ROUNDS = 20


def camera_order(centers: np.ndarray, forward: np.ndarray) -> np.ndarray:
    """Capture order if consecutive cameras are close, otherwise a short tour.

    centers: [N, 3], in units of which one is equivalent to a radian. forward: unit vectors [N, 3].
    """
    poses = np.concatenate([centers, forward], axis=1)
    if len(poses) < 4:
        return np.arange(len(poses))
    distances = np.linalg.norm(poses[:, None] - poses, axis=2)
    nearest = np.median((distances + np.diag(np.full(len(poses), np.inf))).min(axis=1))
    if np.median(np.diag(distances, 1)) <= _MAX_JUMP * nearest:
        return np.arange(len(poses))
    return _shortened(_greedy(distances), distances)


def _greedy(distances: np.ndarray) -> np.ndarray:
    """Nearest-neighbour tour from the camera farthest from the others."""
    tour = [int(distances.sum(axis=1).argmax())]
    left = set(range(len(distances))) - set(tour)
    while left:
        tour.append(min(left, key=lambda one: distances[tour[-1], one]))
        left.remove(tour[-1])
    return np.array(tour)


def _shortened(tour: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """The tour after 2-opt (Croes 1958)."""
    for _ in range(_ROUNDS):
        improved = False
        for first in range(len(tour) - 2):
            a, b = tour[first], tour[first + 1]
            starts, ends = tour[first + 2 : -1], tour[first + 3 :]
            gains = distances[a, b] + distances[starts, ends] - distances[a, starts] - distances[b, ends]
            if len(gains) and gains.max() > 1e-9:
                last = first + 2 + int(gains.argmax())
                tour[first + 1 : last + 1] = tour[first + 1 : last + 1][::-1].copy()
                improved = True
        if not improved:
            break
    return tour
