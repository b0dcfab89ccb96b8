"""A scene in metres, in millimetres, or far from the origin gives the same pictures."""

import dataclasses

import numpy as np
import pytest

from splat_cli.config.presets import load_config
from splat_cli.device import open_backend
from splat_cli.run.setup.build_trainer import build_trainer
from splat_cli.scene.extent import scene_extent, scene_size, units_warning, viewing_distance
from splat_cli.train.trainer import TrainingInputs
from tests.textured_ball import photographs_of_ball, views_of_ball
from tests.training import SETTINGS

# The rotation of a round splat has only rounding errors as gradients, but Adam would still step.
NOISY = {
    "lr_quats": 0.0,
    "noise_scale": 1e6,
    "scale_reg": 1.0,
    "opacity_reg": 0.1,
    "background": "black",
    "relocate_unseen": False,  # keeps resulting splats comparable
}


def in_units(view, scale, origin=0.0):
    w2c = view.w2c.copy()
    w2c[:3, 3] = -w2c[:3, :3] @ (scale * view.center + origin)
    return dataclasses.replace(view, w2c=w2c)


@pytest.fixture(scope="module")
def ball():
    return photographs_of_ball(views_of_ball(8))


def trained(ball, scale, **changes):
    """Means in the first unit and colours after a few steps, float32 [rows, N]."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, 3))
    points = (scale * points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
    config = load_config(None, {**SETTINGS, **NOISY, "densify_start": 60, **changes})
    views = [in_units(view, scale) for view in ball.views]
    colors = np.full((300, 3), 128, np.uint8)
    inputs = TrainingInputs(ball._replace(views=views))
    trainer = build_trainer(open_backend("cpu", threads=1), config, inputs, (points, colors))
    trainer.run_until(60)
    params = trainer.splats.params[:, : trainer.model.num].copy()
    params[:3] /= scale
    params[3:6] -= np.log(scale)
    return params


@pytest.mark.parametrize("scale", [2.0**-8, 2.0**8])
def test_the_unit_of_the_world_changes_nothing(ball, scale):
    np.testing.assert_allclose(trained(ball, scale), trained(ball, 1.0), rtol=1e-2, atol=2e-3)


def test_units_would_matter_without_scaling(ball):
    """The comparison would fail if noise, regularisers or learning rates were not scaled."""
    for change in ({"noise_scale": 0.0}, {"scale_reg": 0.0}, {"local_frame_adam": False}):
        assert np.abs(trained(ball, 1.0) - trained(ball, 1.0, **change)).max() > 0.02, change


def test_a_scene_far_from_the_origin_gives_a_warning(ball):
    points = np.zeros((0, 3), np.float32)
    assert units_warning(ball.views, points) is None
    assert units_warning([in_units(view, 1.0, origin=500.0) for view in ball.views], points) is None
    assert "from the origin" in units_warning([in_units(view, 1.0, origin=1e5) for view in ball.views], points)


def test_a_scene_smaller_than_the_near_plane_gives_a_warning(ball):
    points = np.zeros((5, 3), np.float32)
    assert units_warning([in_units(view, 0.01) for view in ball.views], points) is None
    assert "scale the model up" in units_warning([in_units(view, 1e-5) for view in ball.views], points)


def test_cameras_apart_by_rounding_are_in_one_place(ball):
    """Cameras of a panorama head share one centre, up to rounding."""
    turned = [dataclasses.replace(view, w2c=view.w2c.copy()) for view in ball.views]
    for view in turned:
        view.w2c[:3, 3] = -view.w2c[:3, :3] @ [0.3, 1.7, 2.9]
    assert 0 < np.ptp([view.center for view in turned], axis=0).max() < 1e-12
    assert scene_extent(turned) == 1
    assert units_warning(turned, np.zeros((0, 3), np.float32)) is None


def test_scene_size_is_between_extent_and_viewing_distance(ball):
    extent, points = scene_extent(ball.views), np.zeros((5, 3), np.float32)
    distance = viewing_distance(ball.views, points)
    assert distance == pytest.approx(np.median([view.w2c[2, 3] for view in ball.views]))
    assert scene_size(ball.views, points) == pytest.approx(np.sqrt(extent * distance))
    assert scene_size(ball.views, points[:0]) == pytest.approx(extent)
    one = ball.views[0]
    assert viewing_distance([one], np.array([one.center - 1e3 * one.w2c[2, :3]])) == scene_extent([one])  # it is behind


def test_a_stray_camera_changes_the_size_less_than_the_extent(ball):
    points = np.zeros((5, 3), np.float32)
    w2c = ball.views[0].w2c.copy()
    w2c[2, 3] += 20
    astray = [*ball.views[1:], dataclasses.replace(ball.views[0], w2c=w2c)]
    grown = scene_extent(astray) / scene_extent(ball.views)
    assert grown > 4
    assert scene_size(astray, points) / scene_size(ball.views, points) == pytest.approx(grown**0.5, rel=0.02)
