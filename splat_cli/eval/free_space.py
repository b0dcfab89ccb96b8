"""Floaters: opacity in space that is free according to sparse points.

A camera sees a point of the dataset along a ray, so the ray is free until shortly before the point. Opacity
accumulated there, by splats with centres within the first 80 % of the depth, comes from floaters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from splat_cli.device import Backend
from splat_cli.gaussians.splats import Splats
from splat_cli.joint.depth.free_space import FreeSpaceRays
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.points.observations import observe
from splat_cli.scene.view import View, evenly_spread

HIDDEN = 0.1  # a point counts as hidden if the opacity in front of it is larger
MAX_VIEWS = 8  # number of measured views, evenly spread


@dataclass(frozen=True)
class FreeSpace:
    """Statistics of `num_rays` rays to points: fraction of hidden points, mean opacity in free space, 0 to 1."""

    hidden: float
    opacity: float
    num_rays: int


def free_space_metrics(
    backend: Backend, splats: Splats, views: Mapping[str, Sequence[View]], points: np.ndarray, antialias: bool
) -> dict[str, float]:
    """Results of `free_space` for sets of views, as entries of metrics.json; names of sets are suffixes of keys."""
    metrics: dict[str, float] = {}
    for name, some in views.items():
        if found := free_space(backend, splats, some, points, antialias):
            metrics |= {f"hidden_points{name}": found.hidden, f"opacity_before_points{name}": found.opacity}
    return metrics


def free_space(
    backend: Backend, splats: Splats, views: Sequence[View], points: np.ndarray, antialias: bool
) -> FreeSpace | None:
    """Opacity in front of the points [P, 3] that the views see; None if they see none."""
    views = evenly_spread(views, MAX_VIEWS)
    seen = observe(views, points)
    if not len(seen.pixels):
        return None
    renderer = ViewRenderer(backend, splats, views, antialias)
    rays, measured = FreeSpaceRays(backend, seen), None
    for index in range(len(views)):
        renderer.forward(index)
        measured = rays.opacities(renderer.state, renderer.rasterizer, out=measured)
    opacities = backend.download(measured)
    return FreeSpace(float(np.mean(opacities > HIDDEN)), float(np.mean(opacities)), len(opacities))
