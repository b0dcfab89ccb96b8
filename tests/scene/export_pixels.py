"""Pixels of points in the photographs of a scene."""

import numpy as np

POINTS = np.random.default_rng(0).uniform(-0.5, 0.5, (20, 3))


def pixels(view, points=POINTS):
    """Pixels [P, 2] of points in the photograph as the camera took it."""
    lens = view.lens or view
    placed = points @ view.w2c[:3, :3].T + view.w2c[:3, 3]
    flat = placed[:, :2] / placed[:, 2:]
    bent = flat if view.lens is None else view.lens.distortion.distort(flat)
    return bent * [lens.fx, lens.fy] + [lens.cx, lens.cy]


def assert_same_pixels(scene, expected):
    assert len(scene.views) == len(expected)
    for view, other in zip(scene.views, expected, strict=True):
        np.testing.assert_allclose(pixels(view), other, atol=1e-6)
