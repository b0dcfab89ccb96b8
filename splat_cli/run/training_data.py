"""What a run trains on and measures on: photographs, read and split, and the points that splats start from."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.console import Display
from splat_cli.data.image_budget import image_budget
from splat_cli.data.image_streamer import ImageBudget
from splat_cli.device import Backend
from splat_cli.errors import SceneError
from splat_cli.run.initial_points import starting_points
from splat_cli.run.load_images import load_image_set, split_scene
from splat_cli.run.pose_alignment import align_poses
from splat_cli.scene.extent import lost_digits
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.options import SceneOptions, placed_paths
from splat_cli.scene.points import random_points
from splat_cli.scene.poses import moved_views
from splat_cli.scene.read import read_scene
from splat_cli.scene.view import Scene, View

_SHOWN = 5


@dataclass(frozen=True)
class TrainingData:
    """The scene, the photographs to train on, and those that are held out, if any.

    split: the views of both, before their photographs were decoded. points: float32 [P, 3] and colours uint8 [P, 3].
    room: for how many photographs at a time, where they are decoded when they are needed. pose_offsets: float32 [V, 6],
    where the cameras to train on start with --pose-opt.
    """

    scene: Scene
    training: ImageSet
    held_out: ImageSet | None
    points: tuple[np.ndarray, np.ndarray]
    split: tuple[list[View], list[View]]
    is_split_by_name: bool
    budget: ImageBudget | None = None
    pose_offsets: np.ndarray | None = None


def read_data(
    scene_path: Path, config: TrainConfig, backend: Backend, display: Display, num_resumed: int = 0
) -> TrainingData:
    """Reads the scene and decodes its photographs; tells what was found and what had to be left out.

    num_resumed: splats of the checkpoint that will take the start's place, if there is one: nothing is looked for.
    SceneError where nothing is left.
    """
    scene = read_scene(scene_path, SceneOptions.of(config))
    if config.depth_weight > 0 and not len(scene.points):
        raise SceneError(f"{scene.root} has no points that could tell depths: leave out --depth-weight")
    train, test, by_name = split_scene(scene, config)
    budget = image_budget(backend, config, train, test)
    training = load_image_set(train, config, backend, display, lazily=budget is not None)
    held_out = load_image_set(test, config, backend, display, lazily=budget is not None) if test else None
    _report(scene, [training, held_out] if held_out else [training], display)
    offsets = None
    if num_resumed:
        points = random_points(training.views, num_resumed, np.random.default_rng(0))
    else:
        points, offsets = start_of(scene, training, config, backend, display)
    return TrainingData(scene, training, held_out, points, (train, test), by_name, budget, offsets)


def start_of(
    scene: Scene, training: ImageSet, config: TrainConfig, backend: Backend, display: Display
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray | None]:
    """Points to start from and their colours; with --pose-opt also offsets of the cameras, which come first."""
    if not config.pose_opt:
        return starting_points(scene, training, config, backend, display), None
    offsets = align_poses(backend, training, scene, config, display)
    aligned = training._replace(views=moved_views(training.views, offsets))
    return starting_points(scene, aligned, config, backend, display), offsets


def with_fixed_paths(config: TrainConfig, scene: Path) -> TrainConfig:
    """Paths that were given relative to where the user is, made absolute for later commands."""
    fixed: dict[str, Any] = placed_paths(vars(config), Path(), scene)
    return dataclasses.replace(config, **fixed)


def _report(scene: Scene, photographs: Sequence[ImageSet], display: Display) -> None:
    num_masks = sum(view.mask is not None for view in scene.views)
    masks = f", {num_masks:,} with masks" if num_masks else ""
    display.say(f"Scene: {scene.found}, {len(scene.views):,} photographs{masks}")
    if scene.dropped_points:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in scene.dropped_points.items())
        display.say(f"Left out points: {reasons}")
    if (lost := lost_digits(scene.views)) is not None:
        display.warn(lost)
    skipped = [*scene.skipped, *(line for part in photographs for line in part.skipped)]
    if skipped:
        display.warn(f"left out {len(skipped)} photographs: {_first_of(skipped)}")
    bad = {name: count for part in photographs for name, count in part.bad_pixels.items()}
    if bad:
        where = _first_of([f"{count:,} in {name}" for name, count in bad.items()])
        display.warn(f"{sum(bad.values()):,} pixels are not finite and do not count: {where}")


def _first_of(lines: Sequence[str]) -> str:
    more = len(lines) - _SHOWN
    return "; ".join(lines[:_SHOWN]) + f" and {more} more" * (more > 0)
