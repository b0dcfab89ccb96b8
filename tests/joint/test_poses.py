"""Refinement of poses: gradients and steps against the reference, and the reference against central differences."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.device.cpu import CpuBackend
from splat_cli.joint.joint_model import SUM_THREADS, Decay
from splat_cli.joint.poses import PoseRefinement, pose_decay
from splat_cli.render.camera import CAMERA_DTYPE
from splat_cli.scene.poses import moved_pose
from tests.compare import BACKWARD, FORWARD, Comparison
from tests.reference import adam, pipeline, pose, project_backward
from tests.reference.project import Options
from tests.reference.random_scene import hard_scene, without_ties
from tests.render.on_device import VIEW, OnDevice, blend_backward_of_noise, on_device, projected_gradients

OFFSET = np.array([0.04, -0.03, 0.02, 0.05, -0.02, 0.03])
RATES, EXTENT = Decay(first=1e-2, last=1e-4, steps=100), 2.0


def test_reference_against_central_differences() -> None:
    """Gradient of the whole pipeline's loss with respect to the camera's offset."""
    scene = without_ties(hard_scene(1, num=72))

    def moved_scene(offset: np.ndarray):
        return replace(scene, camera=replace(scene.camera, w2c=pose.moved(scene.camera.w2c, offset)))

    _, gradients = pipeline.loss_and_gradients(moved_scene(OFFSET), Options(), 0.2)
    actual = pose.d_offset(scene.camera.w2c, OFFSET, gradients.w2c)
    expected = [
        pipeline.central_difference(lambda o: pipeline.loss(moved_scene(o), Options(), 0.2), OFFSET, axis)
        for axis in np.eye(6)
    ]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


def test_pose_on_the_host_equals_the_reference() -> None:
    w2c = hard_scene(1).camera.w2c
    for offset in (OFFSET, 30 * OFFSET, np.zeros(6)):
        np.testing.assert_allclose(moved_pose(w2c, offset), pose.moved(w2c, offset), atol=1e-12)


def refinement(backend: Backend, options: Options, seed: int = 1) -> tuple[OnDevice, PoseRefinement]:
    """A scene with random gradients of its projected splats, and a refinement of its cameras."""
    device = on_device(backend, hard_scene(seed), options)
    poses = PoseRefinement(backend, device.cameras, RATES, EXTENT)
    blend_backward_of_noise(device)
    return device, poses


@pytest.mark.parametrize("options", [Options(), Options(antialias=True), Options(sh_degree=1)], ids=str)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_gradient(backend: Backend, comparison: Comparison, options: Options, seed: int) -> None:
    device, poses = refinement(backend, options, seed)
    poses.accumulate_gradients(device.splats, device.state, device.rasterizer)
    scene = hard_scene(seed)
    projected, d_projected = projected_gradients(device, scene, options)
    _, d_w2c = project_backward.backward(scene.splats, scene.camera, options, projected, d_projected)
    actual = device.download(poses.d_pose).sum(axis=0)[:6]
    comparison.check(
        "pose_backward", "rotation and translation", actual, pose.d_axes(scene.camera.w2c, d_w2c), BACKWARD
    )


def test_threads_of_a_block_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on the GPU; on the CPU, blocks have one thread."""
    found = []
    for num_threads in (1, 32):
        monkeypatch.setitem(SUM_THREADS, "cpu", num_threads)
        device, poses = refinement(CpuBackend(threads=1), Options())
        poses.accumulate_gradients(device.splats, device.state, device.rasterizer)
        found.append(poses.d_pose.sum(axis=0))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-6 * np.abs(found[0]).max())


@pytest.mark.parametrize(("step", "rate"), [(7, RATES.first), (75, np.sqrt(RATES.first * RATES.last))])
def test_step(backend: Backend, comparison: Comparison, step: int, rate: float) -> None:
    """A nonzero offset moves as with the reference's Adam, and the camera's pose follows from it by the formula."""
    device, poses = refinement(backend, Options())
    rng = np.random.default_rng(3)
    before = np.stack([OFFSET, rng.normal(0, 1e-2, 6), rng.uniform(1e-5, 1e-3, 6)]).astype(np.float32)
    poses.offsets[VIEW] = backend.upload(before)
    axes = rng.normal(size=6).astype(np.float32)
    poses.d_pose[...] = 0
    poses.d_pose[0, :6], poses.d_pose[5, :6] = backend.upload(axes), backend.upload(axes)
    device.state.write(step=step)
    poses.step(device.state)

    w2c = hard_scene(1).camera.w2c
    # gradient of the matrix entries that gives these gradients of the axes: an antisymmetric part and a shift
    at, turn = pose.moved(w2c, before[0]), 2.0 * axes[:3]
    d_w2c = np.zeros((3, 4))
    d_w2c[:, 3] = 2.0 * axes[3:]
    d_w2c[:, :3] = 0.5 * pose.cross_matrix(turn - np.cross(at[:3, 3], d_w2c[:, 3])) @ at[:3, :3]
    np.testing.assert_allclose(pose.d_axes(at, d_w2c), 2.0 * axes, atol=1e-12)
    gradient = pose.d_offset(w2c, before[0].astype(float), d_w2c)
    rates = rate * np.array([1] * 3 + [EXTENT] * 3)
    round_of_view = (step - 1) // 2 + 1
    columns = [values[:, None].astype(float) for values in (before[0], gradient, before[1], before[2])]
    expected = np.stack([value[:, 0] for value in adam.step(*columns, rates, round_of_view)])
    after = device.download(poses.offsets)[VIEW]
    comparison.check("step_pose", "offset", after[0] - before[0], expected[0] - before[0], BACKWARD)
    comparison.check("step_pose", "moments", after[1:].T, expected[1:].T, FORWARD)
    check_camera(device, poses, after[0])
    assert not device.download(poses.offsets)[1 - VIEW].any()


def check_camera(device: OnDevice, poses: PoseRefinement, offset: np.ndarray) -> None:
    """The cameras in the table and on the host are at the offset pose."""
    expected = pose.moved(hard_scene(1).camera.w2c, offset)
    row = device.backend.download(device.cameras.array).reshape(-1).view(CAMERA_DTYPE)[VIEW]
    np.testing.assert_allclose(row["w2c"].reshape(3, 4), expected[:3], atol=2e-6)
    np.testing.assert_allclose(row["position"], -expected[:3, :3].T @ expected[:3, 3], atol=5e-6)
    np.testing.assert_allclose(poses.refined_views()[VIEW].w2c, expected, atol=1e-6)


@pytest.mark.parametrize(("num_views", "steps"), [(17, 459), (255, 30_000)])
def test_cameras_travel_as_far_in_many_visits_as_in_few(num_views: int, steps: int) -> None:
    decay = pose_decay(2.0, num_views, steps)
    late = np.maximum(2 * np.arange(steps) / steps - 1, 0)
    rates = decay.first * (decay.last / decay.first) ** late
    assert np.degrees(rates.sum()) / num_views == pytest.approx(2.0, rel=0.01)


def test_few_visits_make_no_large_steps() -> None:
    assert pose_decay(2.0, 100, 10).first == pytest.approx(pose_decay(2.0, 100, 1000).first)


@pytest.mark.parametrize("size", [1e-3, 0.05, 0.2, 1.5])
def test_cameras_are_placed_at_their_offsets(backend: Backend, size: float) -> None:
    """Small rotations use a series, large ones sines."""
    device, poses = refinement(backend, Options())
    offset = size * OFFSET / np.linalg.norm(OFFSET)
    poses.offsets[VIEW, 0] = backend.upload(offset.astype(np.float32))
    poses.refresh()
    check_camera(device, poses, offset)


@pytest.mark.parametrize("broken", [{"overflowed": 1}, {"loss_l1": np.nan}])
def test_nothing_moves_in_a_skipped_step(backend: Backend, broken: dict) -> None:
    device, poses = refinement(backend, Options())
    poses.d_pose[...] = 1
    device.state.write(step=1, **broken)
    poses.step(device.state)
    assert not device.download(poses.offsets).any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e19])
def test_a_nonfinite_gradient_moves_nothing(backend: Backend, value: float) -> None:
    device, poses = refinement(backend, Options())
    poses.d_pose[...] = 0
    poses.d_pose[3, 2] = value
    device.state.write(step=1)
    poses.step(device.state)
    assert not device.download(poses.offsets).any()
