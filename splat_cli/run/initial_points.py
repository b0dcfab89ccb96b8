"""Points that the splats of a run start from: the scene's, found by plane sweep, or random."""

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.console import Display
from splat_cli.device import Backend
from splat_cli.errors import SceneError
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.options import SceneOptions
from splat_cli.scene.plane_sweep import MIN_POINTS, plane_sweep_points
from splat_cli.scene.points import random_points
from splat_cli.scene.view import Scene
from splat_cli.train.initialization import with_budget

_TRIES = 2  # pixels that the sweep looks at, a splat that there may be: it finds the depth of less than half


def starting_points(
    scene: Scene, training: ImageSet, config: TrainConfig, backend: Backend, display: Display
) -> tuple[np.ndarray, np.ndarray]:
    """Points float32 [P, 3] and colours uint8 [P, 3] to start from, as --init says, with a word on it.

    None where a file of splats takes their place.
    """
    if config.init_from is not None:
        return scene.points[:0], scene.colors[:0]
    if config.init == "points":
        return scene.points, scene.colors
    points, colors = _points_elsewhere(scene, training, config, backend, display)
    crop = SceneOptions.of(config).crop
    if crop is None:
        return points, colors
    inside = crop.holds(points)
    if not inside.any():
        raise SceneError(f"none of the {len(points):,} points is left (outside the crop): choose a larger one")
    return points[inside], colors[inside]


def _points_elsewhere(
    scene: Scene, training: ImageSet, config: TrainConfig, backend: Backend, display: Display
) -> tuple[np.ndarray, np.ndarray]:
    """Found in the photographs, with --init auto beside the scene's own, or random."""
    max_splats, random = with_budget(config, training.views).max_splats, np.random.default_rng(config.seed)
    count = min(config.init_points, max_splats)
    if config.init == "random":
        return random_points(scene.views, count, random)
    try:
        points, colors = plane_sweep_points(backend, training, min(config.init_points, _TRIES * max_splats), random)
    except MemoryError:
        backend.release_cached()
        display.warn("the memory left is too small to look for points on which photographs agree")
        points, colors = scene.points[:0], scene.colors[:0]
    if config.init == "auto" and len(scene.points):
        display.say(f"Start: {len(scene.points):,} points, and {len(points):,} on which photographs agree")
        return np.concatenate([scene.points, points]), np.concatenate([scene.colors, colors])
    if len(points) >= MIN_POINTS:
        display.say(f"Start: {len(points):,} points on which photographs agree")
        return points, colors
    display.warn(f"nothing was found on which photographs agree: training starts from {count:,} random points")
    return random_points(scene.views, count, random)
