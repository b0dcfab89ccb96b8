"""Opacity in free space: a floater in front of a wall of splats hides only the points behind it."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.eval.evaluate import free_space, free_space_metrics
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.scene.view import View
from tests.views import ring_of_views

FRONT = replace(ring_of_views(1)[0], w2c=np.eye(4))


def grid(num: int, depth: float) -> np.ndarray:
    """Points float32 [num^2, 3] of a wall across the view."""
    x, y = np.meshgrid(np.linspace(-2, 2, num), np.linspace(-1.5, 1.5, num))
    return np.column_stack([x.ravel(), y.ravel(), np.full(num * num, depth)]).astype(np.float32)


def wall_and(floaters: list[tuple[float, float, float]], size: float = 0.1) -> SplatArrays:
    """An opaque wall at a depth of 4, and opaque balls."""
    wall = grid(40, 4.0)
    means = np.concatenate([wall, np.array(floaters, np.float32).reshape(-1, 3)])
    num, sizes = len(means), np.repeat([0.1, size], [len(wall), len(floaters)])
    log_scales = np.log(np.repeat(sizes[:, None], 3, axis=1)).astype(np.float32)
    quats = np.tile(np.float32([1, 0, 0, 0]), (num, 1))
    opacities = np.full(num, 6, np.float32)
    return SplatArrays(means, log_scales, quats, opacities, np.zeros((num, 3), "f4"), np.zeros((num, 0, 3), "f4"))


def measured(backend: Backend, splats: SplatArrays, views: tuple[View, ...] = (FRONT,)):
    return free_space(backend, Splats.from_arrays(backend, splats), views, grid(30, 4.0), antialias=False)


def test_space_before_a_wall_is_free(backend: Backend) -> None:
    found = measured(backend, wall_and([]))
    assert (found.hidden, found.opacity) == (0, 0)
    assert found.num_rays > 300


def test_a_floater_hides_the_points_behind_it(backend: Backend) -> None:
    """The floater's opacity exceeds a tenth within 2.14 standard deviations of its centre."""
    found = measured(backend, wall_and([(0, 0, 2)]))
    radius = 2.14 * np.sqrt((0.1 * FRONT.fx / 2) ** 2 + 0.3)
    pixels, _, inside = FRONT.project(grid(30, 4.0))
    centers = np.floor(pixels[inside]) + 0.5
    behind = np.linalg.norm(centers - [FRONT.cx, FRONT.cy], axis=1) < radius
    assert found.hidden == pytest.approx(behind.mean(), rel=0.15)
    assert 0.3 * found.hidden < found.opacity < found.hidden


@pytest.mark.parametrize("place", [(0, 0, 3.5), (0, 0, 8), (0, 9, 2)], ids=["near the wall", "behind", "beside"])
def test_splats_elsewhere_are_not_floaters(backend: Backend, place: tuple[float, float, float]) -> None:
    assert measured(backend, wall_and([place])).hidden == 0


def test_points_at_many_depths(backend: Backend) -> None:
    """A floater at a depth of 2 counts only for points behind 2.5; the choice of layers makes little difference."""
    points = np.concatenate([grid(9, depth) for depth in np.linspace(1.5, 9, 16)])
    points[:, :2] *= points[:, 2:] / 4
    points += np.random.default_rng(0).normal(0, 0.05, points.shape).astype(np.float32)
    near, far = points[points[:, 2] < 2.4], points[points[:, 2] > 2.9]
    splats = Splats.from_arrays(backend, wall_and([(0, 0, 2)], size=3).select(np.arange(1600, 1601)))
    assert free_space(backend, splats, [FRONT], near, antialias=False).hidden == 0
    assert free_space(backend, splats, [FRONT], far, antialias=False).hidden > 0.95


def test_metrics_are_named_after_the_views(backend: Backend) -> None:
    splats, points = Splats.from_arrays(backend, wall_and([])), grid(30, 4.0)
    metrics = free_space_metrics(backend, splats, {"": [FRONT], "_train": [FRONT] * 40}, points, antialias=False)
    assert set(metrics) == {
        "hidden_points",
        "opacity_before_points",
        "hidden_points_train",
        "opacity_before_points_train",
    }
    assert free_space_metrics(backend, splats, {"": [FRONT]}, np.zeros((0, 3), np.float32), antialias=False) == {}
