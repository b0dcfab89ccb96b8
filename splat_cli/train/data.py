"""What a run trains on and measures on: a scene's photographs, read and split."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from splat_cli.config import TrainConfig
from splat_cli.errors import SceneError
from splat_cli.scene.images import Photographs, load_images
from splat_cli.scene.read import read_scene
from splat_cli.scene.split import split
from splat_cli.scene.view import Scene, View
from splat_cli.train.progress import Display

_SKIPPED_SHOWN = 5


@dataclass(frozen=True)
class TrainingData:
    """The scene, the photographs to train on, and those that are held out, if any."""

    scene: Scene
    training: Photographs
    held_out: Photographs | None

    @property
    def skipped(self) -> list[str]:
        """ "name: reason" of every photograph that is left out."""
        return [*self.scene.skipped, *self.training.skipped, *(self.held_out.skipped if self.held_out else ())]


def read_data(scene_path: Path, config: TrainConfig, display: Display) -> TrainingData:
    """Reads the scene and decodes its photographs; tells what had to be left out. SceneError where nothing is left."""
    scene = read_scene(scene_path, images=config.images, max_size=config.max_size, downscale=config.downscale)
    if len(scene.points) == 0 and config.init_from is None:
        raise SceneError(f"{scene_path} holds no points to start from: triangulate the model again")
    train_views, test_views = split(scene.views, config.test_every if config.eval else 0)
    if not train_views:
        raise SceneError(f"{scene_path} has too few photographs to hold one out: train without --eval")
    data = TrainingData(
        scene, _photographs(train_views, display), _photographs(test_views, display) if test_views else None
    )
    _report_skipped(data, display)
    return data


def with_fixed_paths(config: TrainConfig, scene: Path) -> TrainConfig:
    """Paths that were given relative to where the user is, made absolute for later commands."""
    if config.images is not None and not (scene / config.images).is_dir():
        config = dataclasses.replace(config, images=str(Path(config.images).resolve()))
    if config.init_from is not None:
        config = dataclasses.replace(config, init_from=str(Path(config.init_from).resolve()))
    return config


def _photographs(views: list[View], display: Display) -> Photographs:
    with display.counting("photographs", len(views)) as on_photograph:
        return load_images(views, on_photograph)


def _report_skipped(data: TrainingData, display: Display) -> None:
    if data.scene.num_dropped_points:
        display.say(f"Left out {data.scene.num_dropped_points:,} points that are not finite")
    if data.skipped:
        names, more = data.skipped[:_SKIPPED_SHOWN], len(data.skipped) - _SKIPPED_SHOWN
        display.say(f"Left out {len(data.skipped)} photographs: {'; '.join(names)}{f' and {more} more' * (more > 0)}")
