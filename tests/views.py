"""Views for tests: cameras on a ring, looking at its middle; and the picture of a single view."""

import numpy as np

from splat_cli.gaussians.splats import Splats
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.view import View


def ring_of_views(count=12, width=40, height=30, radius=3.0):
    """`count` views named a_00.jpg, ..., in a circle of `radius`, with an off-centre principal point."""
    return [_looking_inwards(f"a_{i:02d}.jpg", 2 * np.pi * i / count, width, height, radius) for i in range(count)]


def unplaced_view(width, height):
    """A view for code that needs only a picture's size."""
    return View("view", None, width, height, 1.0, 1.0, 0.0, 0.0, np.eye(4))


def _looking_inwards(name, angle, width, height, radius):
    right = np.array([-np.sin(angle), 0.0, np.cos(angle)])
    forward = -np.array([np.cos(angle), 0.0, np.sin(angle)])
    w2c = np.eye(4)
    w2c[:3, :3] = np.stack([right, np.cross(forward, right), forward])
    w2c[:3, 3] = w2c[:3, :3] @ (radius * forward)
    return View(name, None, width, height, 35.0, 36.0, width / 2 + 1, height / 2 - 2, w2c)


def render_view(backend, splats: Splats, view: View, background=(0, 0, 0), antialias=False) -> np.ndarray:
    """Picture of a view, float32 [H, W, 3], not clamped."""
    return ViewRenderer(backend, splats, [view], antialias).render(0, background)
