"""The photographs of a run: which are trained on, and their pixels, as the settings say."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.errors import SceneError
from splat_cli.scene.images import Photographs, load_images
from splat_cli.scene.points import random_points
from splat_cli.scene.split import read_split, split
from splat_cli.scene.view import Scene, View
from splat_cli.train.progress import Display

_BACKGROUNDS = {"black": (0, 0, 0), "white": (255, 255, 255)}


def load_photographs(views: Sequence[View], config: TrainConfig, backend: Backend, display: Display) -> Photographs:
    """Pixels and masks; transparent photographs on the run's background. Raises SceneError."""
    with display.counting("photographs", len(views)) as on_photograph:
        return load_images(
            views, on_photograph, backend=backend, background=_BACKGROUNDS.get(config.background),
            invert_masks=config.invert_masks,
        )  # fmt: skip


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


def starting_points(scene: Scene, config: TrainConfig, display: Display) -> tuple[np.ndarray, np.ndarray]:
    """Points and colours of the scene; random ones, with a message, where it has none."""
    if len(scene.points) or config.init_from is not None:
        return scene.points, scene.colors
    count = min(config.random_points, config.max_splats)
    display.warn(f"the scene brings no points: training starts from {count:,} random ones")
    return random_points(scene.views, count, np.random.default_rng(config.seed))
