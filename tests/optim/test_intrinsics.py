"""Refinement of intrinsics: gradients and steps against the reference, and the reference against differences."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.optim.intrinsics import CameraRefinement, intrinsics_decay
from splat_cli.optim.per_view import Decay
from splat_cli.render.camera import CAMERA_DTYPE
from splat_cli.scene.poses import moved_views
from splat_cli.scene.view import View
from splat_cli.train.refined_views import views_following
from tests.compare import BACKWARD, FORWARD, Comparison
from tests.reference import adam, intrinsics, pipeline
from tests.reference import project as reference
from tests.reference.inputs import Camera
from tests.reference.project import Options
from tests.reference.random_scene import Scene, distorted, hard_scene, without_ties
from tests.render.on_device import VIEW, OnDevice, blend_backward_of_noise, on_device, projected_gradients
from tests.views import ring_of_views

OFFSET = np.array([0.03, -0.02, 0.01, 0.05, -0.03])
RATES, WEIGHT = Decay(first=1e-2, last=1e-4, steps=100), 0.7


def random_scene(seed: int, distortion: bool) -> Scene:
    return distorted(hard_scene(seed)) if distortion else hard_scene(seed)


def camera_of(view: View) -> Camera:
    k1, k2 = view.radial
    return Camera(view.w2c, view.fx, view.fy, view.cx, view.cy, view.width, view.height, k1, k2)


def _without_clamped(scene: Scene) -> Scene:
    """Without splats so far outside that the projection clamps them, which gradients count as constant."""
    clamped = reference.intermediates(scene.splats, scene.camera, Options()).slope_clamped.any(axis=1)
    return replace(scene, splats=scene.splats[~clamped])


@pytest.mark.parametrize("options", [Options(), Options(antialias=True)], ids=str)
def test_reference_against_central_differences(options: Options) -> None:
    """Of the whole pipeline's loss by the offset of its camera's intrinsics."""
    scene = _without_clamped(without_ties(hard_scene(1, num=72)))

    def moved_scene(offset: np.ndarray) -> Scene:
        return replace(scene, camera=intrinsics.moved(scene.camera, offset))

    moved = moved_scene(OFFSET)
    _, gradients = pipeline.loss_and_gradients(moved, options, 0.2)
    projected = reference.forward(moved.splats, moved.camera, options)
    actual = intrinsics.d_camera(moved.splats, moved.camera, options, projected, gradients.projected)
    actual[1:3] *= (scene.camera.fx + scene.camera.fy) / 2
    expected = [
        pipeline.central_difference(lambda o: pipeline.loss(moved_scene(o), options, 0.2), OFFSET, axis)
        for axis in np.eye(5)
    ]
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def refinement(
    backend: Backend, options: Options, seed: int = 1, distortion: bool = False
) -> tuple[OnDevice, CameraRefinement]:
    """A scene with random gradients of its projected splats, and a refinement of its cameras."""
    device = on_device(backend, random_scene(seed, distortion), options)
    refined = CameraRefinement(backend, device.cameras, RATES, 2.0, RATES, WEIGHT, distortion)
    blend_backward_of_noise(device)
    return device, refined


@pytest.mark.parametrize("options", [Options(), Options(antialias=True)], ids=str)
@pytest.mark.parametrize(("seed", "distortion"), [(1, False), (2, False), (3, True)])
def test_gradient(backend: Backend, comparison: Comparison, options: Options, seed: int, distortion: bool) -> None:
    device, refined = refinement(backend, options, seed, distortion)
    refined.accumulate(device.splats, device.state, device.rasterizer, None)
    scene = random_scene(seed, distortion)
    projected, d_projected = projected_gradients(device, scene, options)
    expected = intrinsics.d_camera(scene.splats, scene.camera, options, projected, d_projected)
    actual = device.download(refined.d_pose).sum(axis=0)[6:]
    comparison.check("pose_backward", "intrinsics", actual, expected[: len(actual)], BACKWARD)


@pytest.mark.parametrize(("distortion", "num"), [(False, 3), (True, 5)])
def test_step(backend: Backend, comparison: Comparison, distortion: bool, num: int) -> None:
    """From an offset that is not zero, after four steps of the camera, which both views share."""
    device, refined = refinement(backend, Options(), distortion=distortion)
    rng = np.random.default_rng(3)
    before = np.stack([OFFSET[:num], rng.normal(0, 1e-2, num), rng.uniform(1e-5, 1e-3, num)]).astype(np.float32)
    refined.intrinsics[0] = backend.upload(before)
    refined.camera_steps[0] = 4
    sums = rng.normal(size=6 + num).astype(np.float32)
    refined.d_pose[...] = 0
    refined.d_pose[0], refined.d_pose[5] = backend.upload(sums), backend.upload(sums)
    device.state.write(step=7)
    refined.step(device.state)

    camera = hard_scene(1).camera
    focal = (camera.fx + camera.fy) / 2
    gradient = 2.0 * sums[6:] * [1, focal, focal, 1, 1][:num] + 2 * WEIGHT * before[0]
    rate = np.full(num, RATES.first * (RATES.last / RATES.first) ** 0.07)
    columns = [values[:, None].astype(float) for values in (before[0], gradient, before[1], before[2])]
    expected = np.stack([value[:, 0] for value in adam.step(*columns, rate, 5)])
    after = device.download(refined.intrinsics)[0]
    comparison.check("step_intrinsics", "offset", after[0] - before[0], expected[0] - before[0], BACKWARD)
    comparison.check("step_intrinsics", "moments", after[1:].T, expected[1:].T, FORWARD)
    assert device.download(refined.camera_steps).tolist() == [5]
    check_cameras(device, refined, after[0])


def check_cameras(device: OnDevice, refined: CameraRefinement, offset: np.ndarray) -> None:
    """The cameras in the table, and the host's, have the intrinsics that the offset says."""
    rows = device.backend.download(device.cameras.array).reshape(-1).view(CAMERA_DTYPE)
    for row, given, view in zip(rows, device.cameras.views, refined.refined_views(), strict=True):
        expected = intrinsics.moved(camera_of(given), offset)
        for name in ("fx", "fy", "cx", "cy"):
            assert row[name] == pytest.approx(getattr(expected, name), rel=1e-6)
            assert getattr(view, name) == pytest.approx(getattr(expected, name), rel=1e-6)
        assert [row["k1"], row["k2"]] == pytest.approx([expected.k1, expected.k2], rel=1e-6)
        assert view.radial == pytest.approx((expected.k1, expected.k2), rel=1e-6)


def test_pictures_of_another_size_keep_the_offset(backend: Backend) -> None:
    device, refined = refinement(backend, Options(), distortion=True)
    refined.intrinsics[0, 0] = backend.upload(OFFSET.astype(np.float32))
    device.cameras.resize(2, {})
    refined.set_views(device.cameras.current_views)
    row = backend.download(device.cameras.array).reshape(-1).view(CAMERA_DTYPE)[VIEW]
    expected = intrinsics.moved(camera_of(device.cameras.current_views[VIEW]), OFFSET)
    for name in ("fx", "cy", "k1", "k2"):
        assert row[name] == pytest.approx(getattr(expected, name), rel=1e-6)


def test_cameras_travel_as_far_in_many_steps_as_in_few() -> None:
    for num_cameras, steps in ((1, 30_000), (100, 3000)):
        decay = intrinsics_decay(num_cameras, steps)
        rates = decay.first * (decay.last / decay.first) ** (np.arange(steps) / steps)
        assert rates.sum() / num_cameras == pytest.approx(0.2, rel=0.01)


@pytest.mark.parametrize("broken", [{"overflowed": 1}, {"loss_l1": np.nan}])
def test_nothing_moves_where_the_step_does_not_count(backend: Backend, broken: dict) -> None:
    device, refined = refinement(backend, Options())
    refined.d_pose[...] = 1
    device.state.write(step=1, **broken)
    refined.step(device.state)
    assert not device.download(refined.intrinsics).any()


def test_views_follow_the_intrinsics_of_their_camera() -> None:
    """Those that were not trained on have the changes of a view with their camera, at their own size."""
    views = [replace(view, camera_id=number % 2) for number, view in enumerate(ring_of_views(6))]
    given = views[:4]
    refined = [
        replace(v, fx=1.02 * v.fx, fy=1.02 * v.fy, cx=v.cx + 2, radial=(0.1, 0.02)) if v.camera_id else v for v in given
    ]
    refined = moved_views(refined, np.zeros((4, 6)))
    small = replace(views[5].resized(20, 15), name="small")
    unknown = replace(views[5], name="unknown", camera_id=9)
    followed = views_following([*views, small, unknown], given, refined)
    assert [view.fx for view in followed[:6]] == pytest.approx([35, 35.7] * 3)
    assert (followed[6].fx, followed[6].cx) == (pytest.approx(17.85), pytest.approx(small.cx + 1))
    assert [view.radial for view in followed[5:7]] == [(0.1, 0.02)] * 2
    assert followed[7].fx == 35
