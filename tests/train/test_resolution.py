"""Training at reduced resolution: cameras, photographs, schedule, and bit-identical resumption."""

import numpy as np
import pytest

from splat_cli.config.presets import load_config
from splat_cli.data.image_budget import ImageBudget
from splat_cli.data.training_images import TrainingImages, downscale_at
from splat_cli.device import open_backend
from splat_cli.joint.depth.supervision import DepthSupervision
from splat_cli.render.camera import CAMERA_DTYPE, CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.run.checkpoints.state import capture_state, restore_state
from splat_cli.run.plan import resolve_plan
from splat_cli.run.setup.build_trainer import build_trainer
from splat_cli.scene.images.downscale import downscale_image, downscale_mask, downscale_photograph
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.points.observations import observe
from splat_cli.train.trainer import TrainingInputs
from tests.views import ring_of_views

NO_ORDER = np.zeros(0, np.int32)
SETTINGS = {"steps": 60, "densify_interval": 10, "densify_start": 5, "densify_stop": 50}


def photographs(width=43, height=31, masked=False):
    rng = np.random.default_rng(0)
    views = ring_of_views(4, width, height)
    images = [rng.integers(0, 256, (height, width, 3), dtype=np.uint8) for _ in views]
    masks = [np.where(rng.random((height, width)) < 0.9, 255, 0).astype(np.uint8) if masked else None for _ in views]
    return ImageSet(views, images, masks, [])


def some_points():
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, (300, 3)).astype(np.float32), rng.integers(0, 256, (300, 3), dtype=np.uint8)


def schedule(**settings):
    config = resolve_plan(load_config(None, SETTINGS | settings), ring_of_views(4)).config
    return [downscale_at(config, step) for step in range(0, 60, 10)]


def test_schedule():
    assert schedule() == [1] * 6
    assert schedule(coarse_until=0.5) == [2, 2, 2, 1, 1, 1]
    assert schedule(coarse_until=0.7, coarse_levels=2) == [4, 4, 2, 2, 1, 1]
    assert schedule(coarse_until=0.5, densify_interval=7) == [2, 2, 2, 1, 1, 1]
    config = resolve_plan(load_config(None, SETTINGS | {"coarse_until": 0.5, "densify_interval": 7}), ring_of_views(4))
    assert [downscale_at(config.config, step) for step in (27, 28)] == [2, 1]


def test_small_photographs_keep_some_pixels():
    settings = load_config(None, {"coarse_until": 0.5, "coarse_levels": 3})
    assert resolve_plan(settings, ring_of_views(4, 40, 30)).config.coarse_levels == 2
    assert resolve_plan(settings, ring_of_views(4, 40, 7)).config.coarse_until == 0
    assert resolve_plan(settings, ring_of_views(4, 400, 300)).config.coarse_levels == 3


@pytest.mark.parametrize("factor", [2, 4])
def test_downscaled_pixels_are_means(factor):
    shot = photographs(masked=True)
    image, mask, view = shot.images[0], shot.masks[0], shot.views[0].downscaled(factor)
    height, width = 31 // factor, 43 // factor
    assert (view.height, view.width) == (height, width)
    blocks = image[: height * factor, : width * factor].reshape(height, factor, width, factor, 3)
    assert np.abs(downscale_image(image, factor) - blocks.mean(axis=(1, 3))).max() <= 0.5
    kept = mask[: height * factor, : width * factor].reshape(height, factor, width, factor).all(axis=(1, 3))
    np.testing.assert_array_equal(downscale_mask(mask, factor), np.where(kept, 255, 0))
    points = np.random.default_rng(1).normal(size=(20, 3))
    np.testing.assert_allclose(view.project(points)[0], shot.views[0].project(points)[0] / factor)


def test_camera_table_has_the_downscaled_views(backend):
    shot = photographs(masked=True)
    images = TrainingImages(backend, shot, NO_ORDER)
    array = images.cameras.array
    for factor in (4, 2, 1):
        assert images.set_downscale(factor)
        assert not images.set_downscale(factor)
        views = [view.downscaled(factor) for view in shot.views]
        wanted = backend.download(CameraTable(backend, views).array).view(CAMERA_DTYPE)[:, 0]
        found = backend.download(array).view(CAMERA_DTYPE)[:, 0]
        for name in set(CAMERA_DTYPE.names) - {"photo", "mask", "num_pixels"}:
            np.testing.assert_array_equal(found[name], wanted[name])
        for index, (photo, mask, count) in images._resident.items():
            assert found["photo"][index] == backend.address(photo)
            assert found["mask"][index] == backend.address(mask)
            assert found["num_pixels"][index] == count == np.count_nonzero(backend.download(mask))
        assert images.cameras.extent == CameraTable(backend, views).extent


def test_photographs_and_masks_on_the_host_are_fetched(backend):
    shot = photographs(masked=True)
    shot = shot._replace(masks=[mask if i % 2 else None for i, mask in enumerate(shot.masks)])
    images = TrainingImages(backend, shot, NO_ORDER, ImageBudget(2, 0, on_host=True))
    for factor in (1, 2):
        images.set_downscale(factor)
        for view, (photo, mask, _) in images._resident.items():
            images.cameras.fetch_photograph(IterState(backend, view=view))
            wanted, wanted_mask, _ = downscale_photograph(shot.images[view], shot.masks[view], factor)
            np.testing.assert_array_equal(backend.download(photo), wanted)
            assert (mask is None) == (wanted_mask is None)
            if mask is not None:
                np.testing.assert_array_equal(backend.download(mask), wanted_mask)


def test_moved_cameras_stay_where_they_are(backend):
    images = TrainingImages(backend, photographs(), NO_ORDER)
    rows = backend.download(images.cameras.array).copy()
    rows.view(CAMERA_DTYPE)["w2c"] += 0.25
    images.cameras.array[...] = backend.upload(rows)
    images.set_downscale(2)
    np.testing.assert_array_equal(
        backend.download(images.cameras.array).view(CAMERA_DTYPE)["w2c"], rows.view(CAMERA_DTYPE)["w2c"]
    )


ALL = {
    "pose_opt": True,
    "appearance": "grid",
    "robust": True,
    "depth_weight": 0.1,
    "free_space": 0.1,
    "smooth_3d": 0.2,
    "dropout": 0.1,
    "background": "learned",
    "coarse_levels": 2,
}


@pytest.mark.parametrize("step", [15, 30, 45])
@pytest.mark.parametrize(
    "settings", [{}, ALL, {"strategy": "adc"}, {"batch": 2}], ids=["default", "all", "adc", "batch"]
)
def test_resumed_run_ends_with_the_same_bits(settings, step):
    backend = open_backend("cpu", threads=1)  # sums in a fixed order
    config = load_config(None, SETTINGS | {"score_views": 3, "coarse_until": 0.5} | settings)
    points = some_points()

    def new_trainer():
        return build_trainer(backend, config, TrainingInputs(photographs(masked=True), points=points[0]), points)

    whole = new_trainer()
    whole.run_until(step)
    checkpoint = capture_state(whole)
    checkpoint.arrays = {name: array.copy() for name, array in checkpoint.arrays.items()}
    whole.run_until(60)
    resumed = new_trainer()
    restore_state(resumed, checkpoint)
    resumed.run_until(60)
    ends = [capture_state(trainer).arrays for trainer in (whole, resumed)]
    for name, array in ends[0].items():
        np.testing.assert_array_equal(ends[1][name], array)


def test_points_are_observed_at_the_resolution_of_the_step():
    backend = open_backend("cpu", threads=1)
    config = load_config(None, SETTINGS | {"coarse_until": 0.5, "depth_weight": 0.1})
    points = some_points()
    trainer = build_trainer(backend, config, TrainingInputs(photographs(), points=points[0]), points)
    (supervision,) = (model for model in trainer.joint.models if isinstance(model, DepthSupervision))
    for step, factor in ((29, 2), (31, 1)):
        trainer.run_until(step)
        expected = observe([view.downscaled(factor) for view in trainer.cameras.views], points[0])
        np.testing.assert_array_equal(supervision.targets.pixels, expected.pixels)


def test_last_step_is_at_full_resolution(scene):
    def loss(coarse_until):
        backend = open_backend("cpu", threads=1)
        config = load_config(None, SETTINGS | {"steps": 200, "coarse_until": coarse_until, "dropout": 0.0})
        trainer = build_trainer(backend, config, TrainingInputs(shot), points)
        trainer.run_until(200)
        assert trainer.cameras.extent.width == shot.views[0].width
        return float(trainer.loop.last["psnr"])

    row, column = np.mgrid[:48, :64]
    picture = np.stack([3 * column, 4 * row, 2 * (row + column)], axis=-1).astype(np.uint8)
    shot = ImageSet(ring_of_views(6, 64, 48), [picture] * 6, [None] * 6, [])
    points = some_points()
    assert loss(0.5) > loss(0.0) - 1.0
