"""Panoramas and stereo pairs against images of single cameras."""

import dataclasses

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.output.camera_rigs import Fisheye, Panorama, StereoPair
from splat_cli.render.rendered_maps import render_maps
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.trajectories.focus import look_at
from splat_cli.scene.view import View

MAPS = ("alpha", "depth", "normal")


@pytest.fixture(scope="module")
def shell(backend: Backend) -> Splats:
    """Soft splats all around the origin, four units away."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(2000, 3))
    means *= 4 / np.linalg.norm(means, axis=1, keepdims=True)
    arrays = SplatArrays(
        means=means.astype(np.float32),
        log_scales=rng.normal(-2, 0.2, (2000, 3)).astype(np.float32),
        quats=rng.normal(size=(2000, 4)).astype(np.float32),
        logit_opacities=np.full(2000, 1, np.float32),
        sh0=rng.normal(size=(2000, 3)).astype(np.float32),
        shN=np.zeros((2000, 0, 3), np.float32),
    )
    return Splats.from_arrays(backend, arrays)


def view_along(axis: np.ndarray, size: int = 129) -> View:
    """A camera at the origin with an angle of view of 60 degrees."""
    focal = size / 2 / np.tan(np.radians(30))
    return View("a", None, size, size, focal, focal, size / 2, size / 2, look_at(np.zeros(3), axis, -np.eye(3)[1]))


def test_panorama_agrees_with_single_cameras(backend: Backend, shell: Splats) -> None:
    width = 512
    panorama, view = Panorama(width), view_along(np.array([0, 0, 1.0]))
    cameras = panorama.views(view)
    renderer = ViewRenderer(backend, shell, cameras)
    joined = panorama.join([render_maps(renderer, i, maps=MAPS, distances=True) for i in range(3)])
    assert joined.color.shape == (width // 2, width, 3)
    errors = []
    for longitude, latitude in ((0, 0), (30, 10), (88, -5), (-135, 40), (179, 3), (20, 80), (45, 35), (-90, -85)):
        row, column = int((0.5 - latitude / 180) * width / 2), int((longitude / 360 + 0.5) * width)
        at = np.array([(column + 0.5) / width - 0.5, 0.25 - (row + 0.5) / width]) * 2 * np.pi
        axis = np.array([np.cos(at[1]) * np.sin(at[0]), -np.sin(at[1]), np.cos(at[1]) * np.cos(at[0])])
        direct = ViewRenderer(backend, shell, [view_along(axis)])
        there = render_maps(direct, 0, maps=MAPS, distances=True)
        errors.append(np.abs(joined.color[row, column] - there.color[64, 64]).max())
        assert joined.alpha[row, column] == pytest.approx(
            there.alpha[64, 64], abs=0.08
        )  # splats are flattened onto other planes
        assert joined.depth[row, column] == pytest.approx(4, abs=0.05)
        towards = there.normal[64, 64] @ direct.cameras.views[0].w2c[:3, :3]  # in world axes, which are the panorama's
        assert joined.normal[row, column] @ towards > 0.95
    assert max(errors) < 0.06
    assert np.mean(errors) < 0.03


def test_panorama_closes_at_its_sides(backend: Backend, shell: Splats) -> None:
    panorama = Panorama(512)
    renderer = ViewRenderer(backend, shell, panorama.views(view_along(np.array([1.0, 0, 0]))))
    color = panorama.join([render_maps(renderer, i) for i in range(3)]).color
    across = np.abs(np.diff(color, axis=1)).mean()
    assert np.abs(color[:, 0] - color[:, -1]).mean() < 1.5 * across


def test_fisheye_agrees_with_single_cameras(backend: Backend, shell: Splats) -> None:
    """At 0, 45 and 80 degrees from the axis; nothing outside of the circle."""
    fisheye, view = Fisheye(257), view_along(np.array([0, 0, 1.0]))
    renderer = ViewRenderer(backend, shell, fisheye.views(view))
    frame = fisheye.join([render_maps(renderer, 0, maps=MAPS, distances=True)])
    for degrees in (0, 45, 80):
        angle, column = np.radians(degrees), 128 + round(257 * degrees / 180)
        direct = ViewRenderer(backend, shell, [view_along(np.array([np.sin(angle), 0, np.cos(angle)]))])
        there = render_maps(direct, 0, maps=MAPS, distances=True)
        assert np.abs(frame.color[128, column] - there.color[64, 64]).max() < 0.06
        assert frame.depth[128, column] == pytest.approx(4, abs=0.05)
    assert frame.alpha[128, 1] > 0.1
    assert frame.alpha[20, 20] == frame.depth[20, 20] == frame.color[20, 20].max() == 0


def test_left_picture_shows_things_further_right(backend: Backend) -> None:
    """The disparity is focal length * baseline / depth."""
    view = view_along(np.array([0, 0, 1.0]), 64)
    ball = SplatArrays(
        np.array([[0, 0, 5]], np.float32),
        np.full((1, 3), -4, np.float32),
        np.array([[1, 0, 0, 0]], np.float32),
        np.full(1, 6, np.float32),
        np.ones((1, 3), np.float32),
        np.zeros((1, 0, 3), np.float32),
    )
    rig = StereoPair(0.1)
    renderer = ViewRenderer(backend, Splats.from_arrays(backend, ball), rig.views(view))
    joined = rig.join([render_maps(renderer, i, maps={"depth"}) for i in range(2)])
    assert joined.color.shape == (64, 128, 3)
    left, right = joined.color[:, :64, 0], joined.color[:, 64:, 0]
    columns = [(one.sum(axis=0) * np.arange(64)).sum() / one.sum() for one in (left, right)]
    assert columns[0] - columns[1] == pytest.approx(view.fx * 0.1 / 5, rel=0.02)
    assert joined.depth.max() == pytest.approx(5, rel=1e-5)


def test_stereo_without_baseline_shows_the_same_image_twice(backend: Backend, shell: Splats) -> None:
    rig = StereoPair(1e-12)
    view = dataclasses.replace(view_along(np.array([0, 0, 1.0])), width=20)
    renderer = ViewRenderer(backend, shell, rig.views(view))
    joined = rig.join([render_maps(renderer, i) for i in range(2)])
    np.testing.assert_array_equal(joined.color[:, :20], joined.color[:, 20:])
