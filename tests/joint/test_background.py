"""Learned background: gradient against the reference of the blend, steps, a scene with a background."""

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.joint.background import LearnedBackground
from splat_cli.joint.joint_model import Decay
from splat_cli.run.setup.build_trainer import build_trainer
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.train.trainer import TrainingInputs
from tests.compare import BACKWARD, Comparison
from tests.reference import adam, blend
from tests.reference.project import Options
from tests.reference.random_scene import hard_scene
from tests.render.on_device import on_device
from tests.views import ring_of_views

DECAY = Decay(first=1e-2, last=1e-3, steps=100)


def test_gradient_and_step(backend: Backend, comparison: Comparison) -> None:
    scene, step = hard_scene(2), 3
    device = on_device(backend, scene, Options())
    shown = backend.xp.zeros(3, "float32")
    learned = LearnedBackground(backend, device.cameras, shown, DECAY)
    assert learned.background_color() == (0.5, 0.5, 0.5)
    np.testing.assert_array_equal(device.download(shown), 0.5)
    device.forward()
    d_image = np.random.default_rng(0).normal(size=(3, scene.camera.height, scene.camera.width))
    device.set_d_image(d_image)
    learned.accumulate_gradients(device.splats, device.state, device.rasterizer)
    flat, _ = device.flat()
    blended = blend.forward(flat, scene.background, scene.camera.width, scene.camera.height)
    expected = blend.backward(flat, scene.background, blended, d_image.astype(np.float32)).background
    actual = device.download(learned.d_background).sum(axis=0)
    comparison.check("background_backward", "d background", actual, expected, BACKWARD)

    device.state.write(step=step)
    learned.step(device.state)
    rate, zeros = DECAY.first * (DECAY.last / DECAY.first) ** (step / DECAY.steps), np.zeros((3, 1))
    moved, _, _ = adam.step(np.full((3, 1), 0.5), expected[:, None], zeros, zeros, np.full(3, rate), step)
    np.testing.assert_allclose(device.download(shown), moved[:, 0], atol=1e-6)
    np.testing.assert_allclose(learned.background_color(), moved[:, 0], atol=2e-6)


def test_colour_stays_between_0_and_1(backend: Backend) -> None:
    device, shown = on_device(backend, hard_scene(1), Options()), backend.xp.zeros(3, "float32")
    learned = LearnedBackground(backend, device.cameras, shown, DECAY._replace(first=10.0, last=10.0))
    learned.d_background[0] = backend.upload(np.array([1, -1, 0], np.float32))
    device.state.write(step=1)
    learned.step(device.state)
    assert learned.background_color() == (0, 1, 0.5)


def test_colour_behind_the_splats_is_found(backend: Backend) -> None:
    """Photographs of a plain colour, and a few splats that cover little of them."""
    color = np.array([40, 200, 120], np.uint8)
    views = ring_of_views(4)
    images = [np.tile(color, (view.height, view.width, 1)) for view in views]
    points = np.random.default_rng(0).normal(0, 0.1, (20, 3)).astype(np.float32)
    config = TrainConfig(steps=150, background="learned", densify_stop=1)
    trainer = build_trainer(
        backend, config, TrainingInputs(ImageSet(views, images, [None] * 4, [])), (points, np.tile(color, (20, 1)))
    )
    trainer.run_until(config.steps)
    np.testing.assert_allclose(trainer.joint.background_color(), color / 255, atol=0.02)
