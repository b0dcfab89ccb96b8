"""Splats with a colour field, and photographs of them in different tints."""

import dataclasses

import numpy as np

from splat_cli.config.presets import load_config
from splat_cli.device import open_backend
from splat_cli.field.color_field import ColorField, FieldShape, field_bounds
from splat_cli.field.hash_grid import GridShape
from splat_cli.gaussians.splats import Splats
from splat_cli.render.images import to_8bit
from splat_cli.render.view import ViewRenderer
from splat_cli.run.setup.build_trainer import build_trainer
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.train.trainer import TrainingInputs
from tests.gaussians.some_splats import some_splats as random_splats
from tests.training import SETTINGS
from tests.views import ring_of_views

SMALL = {**SETTINGS, "color": "field", "field_table_size": 2**10, "field_appearance": 3, "noise_scale": 0.0}
SHAPE = FieldShape(GridShape(3, levels=2, table_size=2**8, features=4, base_resolution=4), hidden=(16,), appearance=2)


def some_splats(num=400):
    return random_splats(num, degree=0, spread=0.6, log_scales=(-2, 0.3), logit_opacities=(1, 1), color=0.5)


def own_colored_splats(num=400):
    """`some_splats` with harmonics of degree 1 and features."""
    splats = random_splats(num, degree=1, spread=0.6, log_scales=(-2, 0.3), logit_opacities=(1, 1), color=0.3)
    features = np.random.default_rng(4).normal(size=(num, 3)).astype(np.float32)
    return dataclasses.replace(splats, features=features)


def tinted_images(backend):
    tints = np.array([[0.5, 1, 1], [1, 0.5, 1], [1, 1, 0.5], [1, 1, 1]])
    shown = pictures(backend, some_splats(), ring_of_views(2) * 2)
    return [(picture * tint).astype(np.uint8) for picture, tint in zip(shown, tints, strict=True)]


def tinted_trainer(backend=None, images=None, **changes):
    """Four photographs of some splats, two from each place, by default each with its own tint, on one OS thread."""
    backend, splats, places = backend or open_backend("cpu", threads=1), some_splats(), ring_of_views(2)
    views = [dataclasses.replace(view, name=f"{number}{view.name}") for number in range(2) for view in places]
    images = images or tinted_images(backend)
    steps = {"steps": 160, "densify_start": 150, "densify_stop": 151, "deterministic": backend.name == "cpu"}
    config = load_config(None, {**SMALL, **steps, **changes})
    colors = np.full((len(splats), 3), 128, np.uint8)
    inputs = TrainingInputs(ImageSet(views, images, [None] * 4, []))
    return build_trainer(backend, config, inputs, (splats.means, colors))


def lively_field(backend, splats, num_views=6):
    """A field with colours that depend slightly on every input."""
    shape = dataclasses.replace(SHAPE, features=splats.num_features)
    field = ColorField(backend, shape, field_bounds(splats.means), num_views, len(splats), np.random.default_rng(1))
    rng = np.random.default_rng(2)
    for part, size in (("tables", 0.2), ("network", 0.12), ("embeddings", 0.5)):
        parameters = field.parts()[part]
        parameters.values[...] = backend.upload(rng.normal(0, size, len(parameters)).astype(np.float32))
    field.refresh()
    return field


def pictures(backend, splats, views, coloring=None):
    renderer = ViewRenderer(backend, Splats.from_arrays(backend, splats), views, coloring=coloring)
    return [to_8bit(renderer.render(index)) for index in range(len(views))]
