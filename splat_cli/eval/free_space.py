"""Floaters: opacity in space that sparse points show to be free.

A camera sees a point of the dataset along a ray, which is therefore free up to shortly before the point. Opacity that
splats with centres within the first 80 % of the depth accumulate there stands in the way.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from splat_cli.device import Backend
from splat_cli.device.compiled_units import Unit
from splat_cli.gaussians.splats import Splats
from splat_cli.optim.depth.blended_values import THREADS
from splat_cli.optim.depth.free_space import LAYERS
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.points.observations import observe
from splat_cli.scene.view import View, evenly_spread

REACH = 0.8  # of a point's depth: where its free space ends
HIDDEN = 0.1  # opacity in front of a point that counts as hidden
MAX_VIEWS = 8  # that are measured, evenly spread
FREE_SPACE_KERNELS: list[Unit] = [("optim/free_space", {})]
_LAYERS = 9  # depths of a view at which opacity is measured


@dataclass(frozen=True)
class FreeSpace:
    """Of `num_rays` rays to points: share that is hidden, and mean opacity in free space."""

    hidden: float
    opacity: float
    num_rays: int


def free_space_metrics(
    backend: Backend, splats: Splats, views: Mapping[str, Sequence[View]], points: np.ndarray, antialias: bool
) -> dict[str, float]:
    """`free_space` of several sets of views, for metrics.json: a set's name ends the names of its numbers."""
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
    opacities = np.concatenate([
        opacity_before(renderer, index, seen.pixels[begin:end], REACH / seen.inverse_depths[begin:end])
        for index, (begin, end) in enumerate(itertools.pairwise(seen.begins))
    ])  # fmt: skip
    return FreeSpace(float(np.mean(opacities > HIDDEN)), float(np.mean(opacities)), len(opacities))


def opacity_before(renderer: ViewRenderer, view: int, pixels: np.ndarray, depths: np.ndarray) -> np.ndarray:
    """Opacity that splats nearer than `depths` [P] have in `pixels` [P] of a view, float32 [P], 0 to 1.

    Depths are rounded down to one of _LAYERS of the view.
    """
    renderer.forward(view)
    opacities = np.zeros(len(pixels), np.float32)
    layers = [layer for layer in np.array_split(np.argsort(depths), _LAYERS) if len(layer)]
    for first in range(0, len(layers), LAYERS):
        blended = layers[first : first + LAYERS]
        planes = _opacity_planes(renderer, view, [depths[layer[0]] for layer in blended])
        for plane, layer in zip(planes, blended, strict=False):
            opacities[layer] = plane[pixels[layer]]
    return opacities


def _opacity_planes(renderer: ViewRenderer, view: int, ends: Sequence[float]) -> np.ndarray:
    """Opacity of the splats nearer than up to LAYERS depths in the last view, `view`: float32 [LAYERS, H * W]."""
    backend, rasterizer, state = renderer.backend, renderer.rasterizer, renderer.state
    projection = rasterizer.projection
    padded = backend.upload(np.array([*ends, *[0.0] * (LAYERS - len(ends))], np.float32))
    backend.kernel("optim/free_space", "nearer_than_layers")(
        (-(-len(projection.depths) // THREADS),), (THREADS,),
        state.array, projection.depths, padded, projection.colors, None,
    )  # fmt: skip
    state.write(background=(0.0, 0.0, 0.0))
    rasterizer.blend_again(state)
    return backend.download(rasterizer.image(view)).reshape(LAYERS, -1)
