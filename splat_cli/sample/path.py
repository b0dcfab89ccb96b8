"""Camera path of the sample scene: a walk around the table."""

import numpy as np

from splat_cli.sample.photographs import look_at


def camera_poses(num_views: int, rng: np.random.Generator) -> np.ndarray:
    """World-to-camera matrices, float64 [num_views, 4, 4]; the world's z points up, metres."""
    turn = 2 * np.pi * (np.arange(num_views) + rng.uniform(-0.2, 0.2, num_views)) / num_views
    radius = 2.3 + 0.16 * np.sin(3 * turn + 1) + rng.normal(0, 0.03, num_views)
    height = 1.45 + 0.22 * np.sin(2 * turn) + rng.normal(0, 0.04, num_views)
    centers = np.stack([radius * np.cos(turn), radius * np.sin(turn), height], axis=1)
    targets = np.array([0, 0, 0.72]) + rng.normal(0, 0.06, (num_views, 3))
    rolls = np.radians(2.5) * np.sin(5 * turn) + rng.normal(0, np.radians(1), num_views)
    return np.stack([look_at(*view) for view in zip(centers, targets, rolls, strict=True)])
