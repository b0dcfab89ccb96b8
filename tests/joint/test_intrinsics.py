"""Refinement of intrinsics: gradients and steps against the reference, and the reference against differences."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.joint.intrinsics import CameraRefinement, first_rates, rotation_offsets
from splat_cli.joint.joint_model import Decay
from splat_cli.joint.poses import pose_decay
from splat_cli.render.camera import CAMERA_DTYPE, CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.scene.poses import moved_views
from splat_cli.scene.view import View
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
    """The scene without splats that the projection clamps, because gradients treat clamped values as constants."""
    clamped = reference.intermediates(scene.splats, scene.camera, Options()).slope_clamped.any(axis=1)
    return replace(scene, splats=scene.splats[~clamped])


@pytest.mark.parametrize("options", [Options(), Options(antialias=True)], ids=str)
def test_reference_against_central_differences(options: Options) -> None:
    """Gradient of the whole pipeline's loss with respect to the offset of the camera's intrinsics."""
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
    refined = CameraRefinement(backend, device.cameras, RATES, 2.0, WEIGHT, distortion)
    blend_backward_of_noise(device)
    return device, refined


@pytest.mark.parametrize("options", [Options(), Options(antialias=True)], ids=str)
@pytest.mark.parametrize(("seed", "distortion"), [(1, False), (2, False), (3, True)])
def test_gradient(backend: Backend, comparison: Comparison, options: Options, seed: int, distortion: bool) -> None:
    device, refined = refinement(backend, options, seed, distortion)
    refined.accumulate_gradients(device.splats, device.state, device.rasterizer)
    scene = random_scene(seed, distortion)
    projected, d_projected = projected_gradients(device, scene, options)
    expected = intrinsics.d_camera(scene.splats, scene.camera, options, projected, d_projected)
    actual = device.download(refined.d_pose).sum(axis=0)[6:]
    comparison.check("pose_backward", "intrinsics", actual, expected[: len(actual)], BACKWARD)


@pytest.mark.parametrize(("distortion", "num"), [(False, 3), (True, 5)])
def test_step(backend: Backend, comparison: Comparison, distortion: bool, num: int) -> None:
    """The offset is not zero; the camera, which both views share, has made four steps."""
    device, refined = refinement(backend, Options(), distortion=distortion)
    rng = np.random.default_rng(3)
    before = np.stack([OFFSET[:num], rng.normal(0, 1e-2, num), rng.uniform(1e-5, 1e-3, num)]).astype(np.float32)
    refined.intrinsics[0] = backend.upload(before)
    refined.rates[0] = 2 * RATES.first  # larger than the pose's rate even after decay, except for k2
    refined.limits[0] = backend.upload(np.array([1, 0.5, 0.7, 2, 10][:num], np.float32))
    refined.camera_steps[0] = 4
    sums = rng.normal(size=6 + num).astype(np.float32)
    refined.d_pose[...] = 0
    refined.d_pose[0], refined.d_pose[5] = backend.upload(sums), backend.upload(sums)
    device.state.write(step=7)
    refined.step(device.state)

    camera = hard_scene(1).camera
    focal = (camera.fx + camera.fy) / 2
    gradient = 2.0 * sums[6:] * [1, focal, focal, 1, 1][:num] + 2 * WEIGHT * before[0]
    own_rate = 2 * RATES.first * 0.01**0.07
    rate = np.minimum(own_rate, RATES.first * np.array([1, 0.5, 0.7, 2, 10][:num]))
    columns = [values[:, None].astype(float) for values in (before[0], gradient, before[1], before[2])]
    expected = np.stack([value[:, 0] for value in adam.step(*columns, rate, 5)])
    after = device.download(refined.intrinsics)[0]
    comparison.check("step_intrinsics", "offset", after[0] - before[0], expected[0] - before[0], BACKWARD)
    comparison.check("step_intrinsics", "moments", after[1:].T, expected[1:].T, FORWARD)
    assert device.download(refined.camera_steps).tolist() == [5]
    check_cameras(device, refined, after[0])


def check_cameras(device: OnDevice, refined: CameraRefinement, offset: np.ndarray) -> None:
    """The cameras in the table and on the host have the intrinsics that follow from the offset."""
    rows = device.backend.download(device.cameras.array).reshape(-1).view(CAMERA_DTYPE)
    for row, given, view in zip(rows, device.cameras.views, refined.refined_views(), strict=True):
        expected = intrinsics.moved(camera_of(given), offset)
        for name in ("fx", "fy", "cx", "cy"):
            assert row[name] == pytest.approx(getattr(expected, name), rel=1e-6)
            assert getattr(view, name) == pytest.approx(getattr(expected, name), rel=1e-6)
        assert [row["k1"], row["k2"]] == pytest.approx([expected.k1, expected.k2], rel=1e-6)
        assert view.radial == pytest.approx((expected.k1, expected.k2), rel=1e-6)


def test_resizing_images_keeps_the_offset(backend: Backend) -> None:
    device, refined = refinement(backend, Options(), distortion=True)
    refined.intrinsics[0, 0] = backend.upload(OFFSET.astype(np.float32))
    device.cameras.resize(2, {})
    refined.set_views(device.cameras.current_views)
    row = backend.download(device.cameras.array).reshape(-1).view(CAMERA_DTYPE)[VIEW]
    expected = intrinsics.moved(camera_of(device.cameras.current_views[VIEW]), OFFSET)
    for name in ("fx", "cy", "k1", "k2"):
        assert row[name] == pytest.approx(getattr(expected, name), rel=1e-6)


@pytest.mark.parametrize(("num_cameras", "steps"), [(1, 30_000), (100, 3000)])
def test_cameras_travel_as_far_in_many_steps_as_in_few(num_cameras: int, steps: int) -> None:
    """Sum of the learning rates over a camera's steps. A third of the photographs makes a third of the steps."""
    rates = first_rates(np.full(num_cameras, 7), steps)[0] * 0.01 ** (np.arange(steps) / steps)
    assert rates.sum() / num_cameras == pytest.approx(0.2, rel=0.01)
    np.testing.assert_allclose(
        first_rates(np.array([2, 4]), steps), 0.2 * 4.652 / steps / np.array([1 / 3, 2 / 3]), 1e-3
    )


def test_offsets_move_the_corner_like_a_rotation() -> None:
    view = replace(ring_of_views(1)[0], w2c=np.eye(4))
    corner = np.array([(0 - view.cx) / view.fx, (view.height - view.cy) / view.fy, 1])
    radians = 1e-4
    for axis, offset in zip(np.eye(5), rotation_offsets(view), strict=True):
        moved = moved_views([view], np.array([[*np.zeros(6), *(radians * offset * axis)]]))[0]
        shift = np.linalg.norm(moved.project(corner[None])[0] - view.project(corner[None])[0])
        assert shift == pytest.approx(radians * view.fx, rel=0.03)  # fy is 3 % longer


def test_offsets_without_distortion_keep_it(backend: Backend) -> None:
    """The alignment of poses returns such offsets if images are distorted."""
    _, refined = refinement(backend, Options(), distortion=True)
    offsets = np.zeros((len(refined.offsets), 9), np.float32)
    offsets[:, 6:] = 0.01, 0.02, 0.03
    refined.start_from(offsets)
    np.testing.assert_array_equal(refined.current(), np.pad(offsets, ((0, 0), (0, 2))))


@pytest.mark.parametrize("distortion", [False, True])
def test_first_step_of_a_camera_with_one_photograph_moves_the_image_no_farther_than_its_pose(
    backend: Backend, distortion: bool
) -> None:
    """Adam's first step has the size of the learning rate: with 21 cameras, 400 steps moved the image by 2 px."""
    views = [replace(view, camera_id=number) for number, view in enumerate(ring_of_views(21))]
    decay = pose_decay(0.5, len(views), 400)
    refined = CameraRefinement(backend, CameraTable(backend, views), decay, 1.0, 0.1, distortion)
    refined.d_pose[0] = backend.upload(np.random.default_rng(0).normal(0, 1e-5, refined.d_pose.shape[1]).astype("f4"))
    state = IterState(backend)
    state.write(step=1, view=4)
    refined.step(state)
    offset = refined.current()[4, 6:]
    assert (np.abs(offset) > 0).all()
    for axis, value in enumerate(offset):
        alone = np.zeros((1, 11))
        alone[0, 6 + axis] = value
        points = np.array([[x, y, 1] for x in (-0.5, 0, 0.5) for y in (-0.4, 0, 0.4)]) @ views[4].w2c[:3, :3]
        points = points - views[4].w2c[:3, :3].T @ views[4].w2c[:3, 3]
        shifts = moved_views(views[4:5], alone)[0].project(points)[0] - views[4].project(points)[0]
        assert np.linalg.norm(shifts, axis=1).max() < 1.1 * decay.first * views[4].fy


@pytest.mark.parametrize("broken", [{"overflowed": 1}, {"loss_l1": np.nan}])
def test_nothing_moves_in_a_skipped_step(backend: Backend, broken: dict) -> None:
    device, refined = refinement(backend, Options())
    refined.d_pose[...] = 1
    device.state.write(step=1, **broken)
    refined.step(device.state)
    assert not device.download(refined.intrinsics).any()
