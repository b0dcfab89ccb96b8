"""Points found in photographs: the kernel against its reference, and a textured ball with a known surface."""

import numpy as np
import pytest

from splat_cli.errors import ShapeError
from splat_cli.scene import plane_sweep
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.plane_sweep import (
    NUM_NEIGHBORS,
    RADIUS,
    GrayscaleImages,
    _random_pixels,
    neighbors_by_points,
    neighbors_by_position,
    peaks,
    plane_sweep_points,
    similarity,
)
from splat_cli.terminal.console import Display, Level
from tests import textured_ball as ball
from tests.reference import plane_sweep as reference
from tests.textured_ball import photographs_of_ball, views_of_ball
from tests.views import ring_of_views

COUNT = 2000


def found(backend, taken, count=COUNT):
    return plane_sweep_points(backend, taken, count, np.random.default_rng(0), Display(level=Level.QUIET).counting)


def test_kernel_against_reference(backend):
    views = ring_of_views(6, width=40, height=30)
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (30, 40, 3), dtype=np.uint8) for _ in views]
    images[2][:, :20] = 77  # half of an image has no contrast
    grays = GrayscaleImages.of(backend, views, images, 40)
    neighbors = np.array([[(i + k) % 6 for k in (1, 2, 5, 4)] for i in range(6)], np.int32)
    edge = [[0, RADIUS, RADIUS], [1, 39 - RADIUS, 29 - RADIUS]]
    inner = np.c_[rng.integers(6, size=60), rng.integers(RADIUS, [40 - RADIUS, 30 - RADIUS], (60, 2))]
    pixels = np.array([*edge, *inner], np.int32)
    inverse_depths = np.tile(np.linspace(0, 0.6, 9, dtype=np.float32), (6, 1))
    scores = backend.download(similarity(backend, grays, neighbors, pixels, inverse_depths))
    flat = backend.download(grays.pixels).reshape(6, 30, 40)
    expected = reference.similarity(views, flat, neighbors, pixels, inverse_depths)
    assert 0.2 < (expected > -1).mean() < 0.9
    same_views_see_it = np.abs(scores - expected) < 1e-3  # in float32, a patch may just miss the border of an image
    assert same_views_see_it.mean() > 0.99


@pytest.mark.parametrize("num_depths", [1, 2, 9, 64])
@pytest.mark.parametrize(("min_score", "margin"), [(0.75, 0.1), (0.3, 0.01)])
def test_peaks_against_reference(backend, num_depths, min_score, margin):
    rng = np.random.default_rng(num_depths)
    scores = np.clip(rng.normal(0, 0.35, (3000, num_depths)), -1, 1)
    scores[::2] = (scores[::2] + np.roll(scores[::2], 1, axis=1)) / 2  # smoothed, so that some have a single peak
    scores = scores.astype(np.float32)
    actual = backend.download(peaks(backend, backend.upload(scores), min_score, margin))
    expected = reference.peaks(scores, min_score, margin)
    assert num_depths < 9 or (expected > 0).sum() > 100
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_kernel_arguments(backend):
    views = ring_of_views(4)
    grays = GrayscaleImages.of(backend, views, [np.zeros((30, 40, 3), np.uint8)] * 4, 40)
    with pytest.raises(ShapeError, match="sweep: inverse_depths"):
        similarity(backend, grays, np.zeros((4, 3), np.int32), np.zeros((1, 3), np.int32), np.ones((3, 5), np.float32))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_points_lie_on_the_surface(backend, scale):
    taken = photographs_of_ball(views_of_ball(scale=scale), scale=scale)
    points, colors = found(backend, taken)
    off = np.abs(np.linalg.norm(points / scale, axis=1) - ball.RADIUS)
    assert 100 < len(points) <= COUNT
    assert np.median(off) < 0.02
    assert np.percentile(off, 95) < 0.1
    assert points.dtype == np.float32
    assert colors.dtype == np.uint8
    assert (colors[:, 1] == 90).all()
    assert np.ptp(colors[:, 0]) > 100


def test_masked_pixels_give_no_points(backend):
    views = views_of_ball()
    mask = np.zeros(ball.SIZE[::-1], np.uint8)
    mask[:60] = 255
    points, _ = found(backend, photographs_of_ball(views, [mask] * len(views)))
    below = points @ views[0].w2c[1, :3] > 0.1  # the cameras share their vertical axis
    assert len(points) > 50
    assert not below.any()
    pixels = _random_pixels(views, [mask] * len(views), 5000, np.random.default_rng(0))
    assert pixels[:, 2].max() == 60 - 1 - RADIUS  # patches do not show masked pixels either
    tiny = np.ones((4, 4), np.uint8)
    assert not len(_random_pixels(ring_of_views(5, 4, 4), [tiny] * 5, 5000, np.random.default_rng(0)))


def test_few_views_are_enough(backend):
    points, _ = found(backend, photographs_of_ball(views_of_ball(18)[::6]))
    assert len(points) > 50
    assert np.median(np.abs(np.linalg.norm(points, axis=1) - ball.RADIUS)) < 0.05


@pytest.mark.parametrize(
    "taken",
    [
        pytest.param(lambda: photographs_of_ball(views_of_ball(1)), id="one view"),
        pytest.param(lambda: photographs_of_ball([views_of_ball(1)[0]] * 4), id="one place"),
        pytest.param(lambda: photographs_of_ball(views_of_ball(), texture=0.0), id="no texture"),
        pytest.param(
            lambda: ImageSet(
                v := ring_of_views(5, 4, 4),
                [np.eye(4, dtype=np.uint8)[..., None].repeat(3, axis=2) * 255] * len(v),
                [None] * len(v),
                [],
            ),
            id="tiny",
        ),
    ],
)
def test_no_points_without_texture(backend, taken):
    points, colors = found(backend, taken())
    assert points.shape == (0, 3)
    assert colors.shape == (0, 3)


def test_noise_gives_few_points(backend):
    views, rng = views_of_ball(), np.random.default_rng(0)
    images = [rng.integers(0, 256, (ball.SIZE[1], ball.SIZE[0], 3), dtype=np.uint8) for _ in views]
    points, _ = found(backend, ImageSet(views, images, [None] * len(views), []))
    assert len(points) < 0.02 * COUNT


def test_more_pixels_are_searched_where_few_give_points(backend, monkeypatch):
    """Otherwise luck decides where about as many points as needed are found: half of a scene had no trial runs."""
    monkeypatch.setattr(plane_sweep, "_ROUGH_PIXELS", (40, 8_000))
    assert len(found(backend, photographs_of_ball(views_of_ball()))[0]) > 250


def test_every_view_has_other_views_to_compare_with():
    """This includes scenes with fewer views than NUM_NEIGHBORS."""
    views = views_of_ball(3)
    points = np.random.default_rng(0).normal(size=(40, 3)) * 0.2
    for neighbors in (neighbors_by_position(views), neighbors_by_points(views, points)):
        assert neighbors.neighbors.shape == (3, NUM_NEIGHBORS)
        assert (neighbors.neighbors != np.arange(3)[:, None]).all()
        assert (neighbors.nearest > 0).all()
