"""A trainer of random splats on random photographs."""

import numpy as np

from splat_cli.config.presets import load_config
from splat_cli.device import Backend
from splat_cli.run.setup.build_trainer import build_trainer
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.train.trainer import Trainer, TrainingInputs
from tests.views import ring_of_views


def noise_trainer(backend: Backend, num_points: int, *, scene_points: bool = False, **settings: object) -> Trainer:
    """A trainer on four photographs, the same in every call. scene_points: the scene also has the initial points."""
    views = ring_of_views(4)
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 255, (view.height, view.width, 3), dtype=np.uint8) for view in views]
    points = rng.normal(0, 0.5, (num_points, 3)).astype(np.float32)
    colors = rng.integers(0, 255, (num_points, 3), dtype=np.uint8)
    image_set = ImageSet(views, images, [None] * 4, [])
    inputs = TrainingInputs(image_set, points=points if scene_points else None)
    return build_trainer(backend, load_config(None, settings), inputs, (points, colors))


def launch_anew(trainer: Trainer) -> None:
    """From now on, steps call the trainer's functions instead of a captured graph, so that patches take effect."""
    trainer.backend.capture_graph = lambda launch: launch  # type: ignore[method-assign]
    trainer.rasterizer.generation += 1
