"""The images of a run: the split into training and held-out views, and their pixels."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from splat_cli.config import TrainConfig
from splat_cli.console import Display
from splat_cli.data.image_budget import all_fit
from splat_cli.device import Backend
from splat_cli.errors import SceneError
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.images.image_set import ImageSet, load_images
from splat_cli.scene.images.lazy import lazy_images
from splat_cli.scene.options import SceneOptions
from splat_cli.scene.read import read_scene
from splat_cli.scene.split import read_split, split
from splat_cli.scene.view import Scene, View

_BACKGROUNDS = {"black": (0, 0, 0), "white": (255, 255, 255)}


def load_image_set(
    views: Sequence[View], config: TrainConfig, backend: Backend, display: Display, lazily: bool = False
) -> ImageSet:
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


def load_run_images(
    run: RunDir, views: Sequence[View], scene: Path | None, backend: Backend, display: Display
) -> ImageSet:
    """The photographs of some of the run's views; those that are not in the scene any more are named and left out.

    scene: where it lies now, by default where it was in training. Raises SceneError.
    """
    config, scene_path = run.config(), scene or run.scene_path()
    found = {view.name: view for view in read_scene(scene_path, SceneOptions.of(config)).views}
    present = [_with_photograph(view, found[view.name]) for view in views if view.name in found]
    if not present:
        raise SceneError(f"{scene_path} has none of the run's photographs: give the run's scene with --scene")
    lazily = not all_fit(backend, config, present)
    photographs = load_image_set(present, config, backend, display, lazily)
    gone = [f"{view.name}: not in {scene_path}" for view in views if view.name not in found]
    for line in (*gone, *photographs.skipped):
        display.warn(f"left out {line}")
    return photographs


def _with_photograph(view: View, found: View) -> View:
    """The run's camera, with the scene's photograph."""
    return dataclasses.replace(view, path=found.path, lens=found.lens, mask=found.mask)
