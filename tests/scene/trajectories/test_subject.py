"""Paths keep what most cameras see within their frames."""

import dataclasses

import numpy as np
import pytest

from splat_cli.sample import make_sample_scene
from splat_cli.scene import read_scene
from splat_cli.scene.trajectories.camera_path import MIN_ZOOM, CameraPath, framed, shares_seen
from tests.scene.trajectories.captures import FOCUS, UP, cameras, on_an_arc, walk
from tests.views import ring_of_views


def around(middle, radius, count=2000):
    """Points evenly spread over a ball."""
    rng = np.random.default_rng(3)
    directions = rng.normal(size=(count, 3))
    lengths = radius * rng.uniform(0, 1, (count, 1)) ** (1 / 3)
    return middle + lengths * directions / np.linalg.norm(directions, axis=1, keepdims=True)


def shares_inside(frames, points):
    return np.array([frame.project(points)[2].mean() for frame in frames])


def zoomed(views, factor):
    return [dataclasses.replace(view, fx=factor * view.fx, fy=factor * view.fy) for view in views]


def focal_factors(frames, views):
    return {(frame.fx / views[0].fx, frame.fy / views[0].fy) for frame in frames}


def test_frames_are_widened_until_they_show_the_subject():
    ball, views = around(FOCUS, 0.8), on_an_arc(94)
    assert shares_seen(views, ball).min() > 0.5
    narrow = zoomed(views, 1.6)
    assert shares_inside(narrow, ball).min() < 0.95
    frames = framed(narrow, views, ball)
    assert shares_inside(frames, ball).min() >= 0.99
    (factor,) = {frame.fx / one.fx for frame, one in zip(frames, narrow, strict=True)}
    assert MIN_ZOOM < factor < 1
    assert {frame.fy / one.fy for frame, one in zip(frames, narrow, strict=True)} == {factor}


def test_frames_that_show_the_subject_keep_their_field_of_view():
    ball, views = around(FOCUS, 0.1), cameras()
    frames, _ = CameraPath("orbit", 12).through(views, ball)
    assert focal_factors(frames, views) == {(1.0, 1.0)}


def test_a_subject_too_large_gives_way_to_what_more_cameras_see():
    """6 of 10 cameras see both balls; the other 4 are telephoto lenses, and no allowed factor shows them both."""
    ball, other = around(FOCUS, 0.3), around(FOCUS + UP, 0.3)
    views = zoomed(on_an_arc(94, 10), 0.5)
    telephoto = views[6:] = zoomed(views[6:], 6)
    assert set(shares_seen(views, other)) == {0.6}
    assert framed(telephoto, views[:6], other)[0].fx == pytest.approx(MIN_ZOOM * telephoto[0].fx)
    frames = framed(telephoto, views, np.concatenate([ball, other]))
    assert frames[0].fx == telephoto[0].fx
    assert shares_inside(frames, ball).min() >= 0.99


def test_a_frame_does_not_show_what_is_behind_it():
    views = cameras()
    turned = dataclasses.replace(views[0], w2c=np.diag([-1.0, 1, -1, 1]) @ views[0].w2c)
    frames = framed([views[1], turned], views, around(FOCUS, 0.1))
    assert {frame.fx for frame in frames} == {MIN_ZOOM * views[0].fx}


def test_the_field_of_view_has_a_limit():
    views = cameras()
    frames = framed(zoomed(views, 8), views, around(FOCUS, 0.6))
    assert frames[0].fx == pytest.approx(8 * MIN_ZOOM * views[0].fx)


def test_strays_do_not_widen_the_frames():
    views, ball = cameras(), around(FOCUS, 0.1)
    stray = np.repeat([FOCUS + [0.0, 0.0, 0.9]], 10, axis=0)
    assert framed(views, views, np.concatenate([ball, stray]))[0].fx == views[0].fx


def test_cameras_without_a_common_subject_change_nothing():
    views, street = walk(), around(np.array([9.0, 0, 0]), 20)
    street = street[shares_seen(views, street) < 0.5]
    frames, _ = CameraPath("walk").through(views, street)
    assert focal_factors(frames, views) == {(1.0, 1.0)}


def test_interpolation_passes_the_cameras_as_they_are():
    views = cameras()
    frames, _ = CameraPath("interpolate", 12).through(views, around(FOCUS, 0.8))
    assert focal_factors(frames, views) == {(1.0, 1.0)}
    np.testing.assert_allclose(frames[0].w2c, views[0].w2c, atol=1e-9)


@pytest.mark.parametrize("size", [(90, 160), (320, 180)])
def test_the_subject_stays_in_pictures_of_another_shape(size):
    views, ball = cameras(), around(FOCUS, 0.6)
    frames, _ = CameraPath("orbit", 12, size=size).through(views, ball)
    assert {(frame.width, frame.height) for frame in frames} == {size}
    assert shares_inside(frames, ball).min() >= 0.99
    assert len({frame.fx for frame in frames}) == 1


@pytest.mark.parametrize("count", [1, 2])
def test_few_cameras_agree_on_no_subject(count):
    views = ring_of_views(12)[:count]
    assert framed(views, views, around(np.zeros(3), 3.0))[0].fx == views[0].fx


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return read_scene(make_sample_scene(tmp_path_factory.mktemp("sample"), num_views=24, width=32, height=24))


@pytest.mark.parametrize("kind", ["auto", "orbit", "spiral", "walk"])
def test_every_frame_shows_the_subject_of_the_sample_scene(kind, sample):
    subject = sample.points[shares_seen(sample.views, sample.points) >= 0.8]
    assert len(subject) > 100
    frames, _ = CameraPath(kind, 24, size=(36, 64)).through(sample.views, sample.points)
    assert shares_inside(frames, subject).min() >= 0.98
