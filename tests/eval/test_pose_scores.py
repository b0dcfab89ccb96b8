"""With refined poses, right halves of photographs are also scored at the poses that fit left halves."""

import numpy as np
import pytest

from splat_cli.config.presets import load_config
from splat_cli.device import Backend
from splat_cli.eval.evaluate import TrainedModel, evaluate
from splat_cli.eval.held_out_fit import fit_held_out_poses
from splat_cli.eval.metrics import Score
from splat_cli.gaussians.splats import Splats
from splat_cli.scene.extent import scene_extent
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.poses import moved_views
from tests.field_scenes import pictures, some_splats
from tests.reference.metrics import score
from tests.views import ring_of_views

TRUE = ring_of_views(6)[:2]
OFFSETS = np.array([[0.01, -0.008, 0.006, 0.02, -0.01, 0.01], [-0.006, 0.01, 0.0, -0.01, 0.02, 0.0]])
GIVEN = moved_views(TRUE, OFFSETS)
CONFIG = load_config(None, {"pose_opt": True, "background": "black", "antialias": False})
BLACK = (0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def model(backend: Backend) -> TrainedModel:
    return TrainedModel(Splats.from_arrays(backend, some_splats()))


@pytest.fixture(scope="module")
def photographs(backend: Backend) -> list[np.ndarray]:
    return pictures(backend, some_splats(), TRUE)


def evaluated(model: TrainedModel, photographs: list[np.ndarray]) -> list[Score]:
    return list(evaluate(model, ImageSet(GIVEN, photographs, [None] * 2, []), CONFIG).values())


def test_the_second_score_is_that_of_the_right_pose(model: TrainedModel, photographs: list[np.ndarray]) -> None:
    for one in evaluated(model, photographs):
        assert one.pose_fitted_psnr
        assert one.pose_fitted_psnr > one.psnr + 8


def test_fitted_poses_show_splats_where_the_true_ones_do(model: TrainedModel, photographs: list[np.ndarray]) -> None:
    """Rotation and translation of a camera may compensate each other, so positions in the picture are compared."""
    images = ImageSet(GIVEN, photographs, [None] * 2, [])
    fitted = fit_held_out_poses(model.splats, images, CONFIG, BLACK, scene_extent(TRUE))
    means = some_splats().means.astype(np.float64)
    for true, given, own in zip(TRUE, GIVEN, fitted, strict=True):
        right, before, after = (view.project(means)[0] for view in (true, given, own))
        assert np.abs(after - right).mean() < 0.3 * np.abs(before - right).mean()


def test_right_halves_do_not_reach_the_fit_and_are_all_that_is_scored(
    model: TrainedModel, photographs: list[np.ndarray]
) -> None:
    middle = photographs[0].shape[1] // 2
    changed = [photograph.copy() for photograph in photographs]
    for photograph in changed:
        photograph[:, middle:] = 255 - photograph[:, middle:]
    sets = (ImageSet(GIVEN, images, [None] * 2, []) for images in (photographs, changed))
    fitted, same = (fit_held_out_poses(model.splats, one, CONFIG, BLACK, 1.0) for one in sets)
    # Sums of a GPU in any order move poses by 1e-7, changed right halves by more than 1e-3.
    np.testing.assert_allclose([view.w2c for view in fitted], [view.w2c for view in same], atol=1e-5)

    right = np.zeros(photographs[0].shape[:2], np.uint8)
    right[:, middle:] = 255
    extent = scene_extent(GIVEN)
    own = fit_held_out_poses(model.splats, ImageSet(GIVEN, changed, [None] * 2, []), CONFIG, BLACK, extent)
    renders = pictures(model.splats.backend, some_splats(), own)
    for one, render, photograph in zip(evaluated(model, changed), renders, changed, strict=True):
        assert one.pose_fitted_psnr == pytest.approx(score(render, photograph, right).psnr, rel=1e-6)


def test_without_refined_poses_there_is_no_second_score(model: TrainedModel, photographs: list[np.ndarray]) -> None:
    config = load_config(None, {"background": "black"})
    scores = evaluate(model, ImageSet(TRUE, photographs, [None] * 2, []), config)
    assert {one.pose_fitted_psnr for one in scores.values()} == {None}
