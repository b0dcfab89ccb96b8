"""The photographs of a run: which are trained on, and their pixels, as the settings say."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.errors import SceneError
from splat_cli.scene.images import Photographs, load_images
from splat_cli.scene.lazy_images import lazy_images
from splat_cli.scene.options import SceneOptions
from splat_cli.scene.points import random_points
from splat_cli.scene.split import read_split, split
from splat_cli.scene.sweep import MIN_POINTS, sweep_points
from splat_cli.scene.view import Scene, View
from splat_cli.train.progress import Display
from splat_cli.train.start import with_budget

_BACKGROUNDS = {"black": (0, 0, 0), "white": (255, 255, 255)}
_TRIES = 2  # pixels that the sweep looks at, a splat that there may be: it finds the depth of less than half


def load_photographs(
    views: Sequence[View], config: TrainConfig, backend: Backend, display: Display, lazily: bool = False
) -> Photographs:
    """Pixels and masks; transparent photographs on the run's background. Raises SceneError.

    lazily: each is decoded whenever it is needed, and what is broken is found out and told only then.
    """
    background = _BACKGROUNDS.get(config.background)
    if lazily:
        return lazy_images(
            views, lambda broken: display.warn(f"does not count: {broken}"), backend=backend, background=background,
            invert_masks=config.invert_masks,
        )  # fmt: skip
    with display.counting("photographs", len(views)) as on_photograph:
        return load_images(
            views, on_photograph, backend=backend, background=background, invert_masks=config.invert_masks
        )


def split_scene(scene: Scene, config: TrainConfig) -> tuple[list[View], list[View], bool]:
    """(train, test, whether names were given): by --split, or as the dataset says, or every Nth. Raises SceneError."""
    if not config.eval:
        return *split(scene.views, 0), False
    names = scene.test_names if config.split is None else read_split(Path(config.split))
    train, test = split(scene.views, config.test_every, names)
    if not train:
        raise SceneError(f"{scene.root} has too few photographs to hold one out: train without --eval")
    if not test:
        raise SceneError(f"{scene.root} has none of the photographs that {config.split} names: compare the names")
    return train, test, names is not None


def starting_points(
    scene: Scene, training: Photographs, config: TrainConfig, backend: Backend, display: Display
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
    scene: Scene, training: Photographs, config: TrainConfig, backend: Backend, display: Display
) -> tuple[np.ndarray, np.ndarray]:
    """Found in the photographs, with --init auto beside the scene's own, or random."""
    max_splats, random = with_budget(config, training.views).max_splats, np.random.default_rng(config.seed)
    count = min(config.init_points, max_splats)
    if config.init == "random":
        return random_points(scene.views, count, random)
    try:
        points, colors = sweep_points(backend, training, min(config.init_points, _TRIES * max_splats), random)
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
