"""Images of a saved run, for evaluation and further training."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from splat_cli.data.image_budget import images_fit
from splat_cli.device import Backend
from splat_cli.errors import SceneError, UsageError
from splat_cli.run.setup.training_data import load_image_set
from splat_cli.run.storage.inputs import changed_inputs
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.georeferenced import point_of
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.options import SceneOptions
from splat_cli.scene.read import read_scene
from splat_cli.scene.view import Scene, View
from splat_cli.terminal.console import Display, first_of, left_out


def load_run_images(
    run: RunDir,
    views: Sequence[View],
    scene: Path | None,
    backend: Backend,
    display: Display,
    *,
    for_training: bool = False,
) -> ImageSet:
    """Photographs of some of the run's views; those missing in the scene are skipped, with a warning.

    Also warns of photographs, masks and cameras that have changed since training.

    scene: folder of the scene, by default the one used in training. for_training: these changes are a UsageError.
    Raises SceneError.
    """
    config, scene_path = run.config(), scene or run.scene_path()
    found = {view.name: view for view in read_run_scene(run, scene).views}
    present = [_with_photograph(view, found[view.name]) for view in views if view.name in found]
    if not present:
        raise SceneError(f"{scene_path} has none of the run's photographs: give the run's scene with --scene")
    if others := other_scene(run, scene_path, [found[view.name] for view in present]):
        if for_training:
            raise UsageError(f"{others}: restore it, or start a new run")
        display.warn(f"{others}: its scores are of other photographs")
    lazily = not images_fit(backend, config, present)
    photographs = load_image_set(present, config, backend, display, lazily)
    gone = [f"{view.name}: not in {scene_path}" for view in views if view.name not in found]
    if skipped := [*gone, *photographs.skipped]:
        display.warn(left_out(skipped, "photograph"))
    return photographs


def other_scene(run: RunDir, scene_path: Path, views: Sequence[View]) -> str | None:
    """Text that says which of these views of the scene have changed since training; None if none has."""
    changed = changed_inputs(run, views)
    return f"{scene_path} is not what {run.path} was trained on ({first_of(changed)})" if changed else None


def read_run_scene(run: RunDir, scene: Path | None) -> Scene:
    """The run's scene with its settings and origin; scene: its folder, by default the one used in training.

    Raises SceneError.
    """
    options = dataclasses.replace(SceneOptions.of(run.config()), origin=point_of(run.origin()))
    return read_scene(scene or run.scene_path(), options)


def _with_photograph(view: View, found: View) -> View:
    """The run's camera with the scene's photograph."""
    return dataclasses.replace(view, path=found.path, lens=found.lens, mask=found.mask)
