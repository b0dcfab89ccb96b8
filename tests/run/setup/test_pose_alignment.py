"""Pose alignment: disturbed cameras are corrected on small photographs before training."""

import dataclasses
import io
from pathlib import Path

import numpy as np
import pytest

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.run.plan import resolve_plan
from splat_cli.run.setup import initial_state
from splat_cli.run.setup.initial_state import find_initial_state
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.poses import moved_views, similarity_between
from splat_cli.scene.view import Scene, View
from splat_cli.terminal.console import Display
from tests.textured_ball import RADIUS, colors_at, photographs_of_ball, views_of_ball


def pixels(view: View, points: np.ndarray) -> np.ndarray:
    """Pixels at which the view shows the points, [P, 2]."""
    x, y, z = view.w2c[:3, :3] @ points.T + view.w2c[:3, 3:]
    return np.stack([view.fx * x / z + view.cx, view.fy * y / z + view.cy], axis=1)


def pixels_off(views: list[View], others: list[View], points: np.ndarray) -> float:
    """Root mean square error after the best similarity transform."""
    moved = similarity_between(views, others)
    turned = moved.scale * points @ moved.rotation.T + moved.translation
    pairs = zip(views, others, strict=True)
    return float(np.sqrt(np.mean([(pixels(a, points) - pixels(b, turned)) ** 2 for a, b in pairs])))


@pytest.fixture
def points() -> np.ndarray:
    """Points on the ball."""
    directions = np.random.default_rng(0).normal(size=(1500, 3))
    return (RADIUS * directions / np.linalg.norm(directions, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def disturbed() -> tuple[list[View], ImageSet]:
    """True views of a ball, and its photographs with views rotated by about a degree."""
    true = views_of_ball(8)
    offsets = np.random.default_rng(1).normal(0, 0.01, (len(true), 6)) * [1, 1, 1, 0, 0, 0]
    return true, photographs_of_ball(true)._replace(views=moved_views(true, offsets))


def test_start_of_a_run_is_at_poses_nearer_to_the_truth(backend: Backend, points, disturbed) -> None:
    true, photographs = disturbed
    scene = Scene(Path("ball"), photographs.views, points, colors_at(points))
    config = TrainConfig(pose_opt=True, init="points")
    plan = resolve_plan(config, photographs.views)
    start = find_initial_state(scene, photographs, plan.config, backend, Display(io.StringIO()))
    aligned = moved_views(photographs.views, start.pose_offsets)
    assert start.points[0] is points
    assert pixels_off(true, aligned, points) < 0.4 * pixels_off(true, photographs.views, points)


def test_right_cameras_of_a_photograph_each_keep_their_intrinsics(backend: Backend, points) -> None:
    """With the rates of shared cameras, focal lengths were wrong by 11 % and surface points by 3.4 px."""
    true = [dataclasses.replace(view, camera_id=number) for number, view in enumerate(views_of_ball(8))]
    photographs = photographs_of_ball(true)
    scene = Scene(Path("ball"), true, points, colors_at(points))
    plan = resolve_plan(TrainConfig(pose_opt=True, refine_intrinsics=True, init="points"), true)
    start = find_initial_state(scene, photographs, plan.config, backend, Display(io.StringIO()))
    assert start.pose_offsets is not None
    assert np.abs(start.pose_offsets[:, 6]).max() < 0.04
    assert pixels_off(true, moved_views(true, start.pose_offsets), points) < 1.6  # px of 160x120


def test_sizes_go_from_coarse_to_fine(disturbed) -> None:
    """Photographs and cameras are downscaled to 128 pixels; smaller photographs do not change."""
    _, photographs = disturbed
    masks = [np.full(image.shape[:2], 255, np.uint8) for image in photographs.images]
    (small,) = initial_state.pyramid(photographs._replace(masks=masks))
    view, before = small.views[0], photographs.views[0]
    assert (view.width, view.height) == (128, 96)
    assert (view.fx, view.cy) == pytest.approx((0.8 * before.fx, 0.8 * before.cy))
    assert small.images[0].shape == (96, 128, 3)
    assert small.masks[0].shape == (96, 128)
    (same,) = initial_state.pyramid(small)
    assert (same.views[0].width, same.views[0].fx) == (128, view.fx)
    assert np.array_equal(same.images[0], small.images[0])


def test_large_photographs_have_two_sizes() -> None:
    view = views_of_ball(1)[0]
    image = np.zeros((480, 640, 3), np.uint8)
    large = ImageSet([dataclasses.replace(view, width=640, height=480)], [image], [None], [])
    assert [small.images[0].shape[1] for small in initial_state.pyramid(large)] == [128, 256]
