"""ISP: pictures, gradients and steps against the reference; the reference against central differences."""

import dataclasses

import numpy as np
import pytest

from splat_cli.config import ResolvedConfig
from splat_cli.device import Backend
from splat_cli.joint.appearance.camera_response import CameraResponse
from splat_cli.joint.appearance.isp import CAMERA_VALUES, PHOTO_VALUES, IspLoss, photo_decay
from splat_cli.joint.joint_model import Decay
from splat_cli.render.camera import CameraTable
from tests.compare import BACKWARD, FORWARD, Comparison
from tests.joint.passed_loss import PassedLoss
from tests.reference import adam, isp, ssim_loss
from tests.reference.pipeline import central_difference
from tests.views import unplaced_view

PHOTO_DECAY, CAMERA_DECAY = Decay(first=1e-2, last=1e-3, steps=100), Decay(first=2e-2, last=1e-3, steps=100)
PHOTO_WEIGHT, CAMERA_WEIGHT, SSIM_WEIGHT = 0.3, 0.2, 0.2
SIZES = [(50, 37), (64, 32), (5, 3), (301, 200), (1, 40)]
STEP, CAMERA_STEPS = 6, 4  # number of steps of the run, and of the view's camera so far


def some_case(width: int, height: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A picture [3, H, W] with values outside 0 to 1, a photograph uint8 [H, W, 3], and the values of both models."""
    rng = np.random.default_rng(width)
    photograph = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    image = (0.7 * photograph / 255 + rng.uniform(-0.3, 0.7, photograph.shape)).transpose(2, 0, 1)
    photo, camera = (rng.normal(0, 0.1, size).astype(np.float32) for size in (PHOTO_VALUES, CAMERA_VALUES))
    return image.astype(np.float32).astype(float), photograph, photo, camera


def test_reference_against_central_differences() -> None:
    image, photograph, photo, camera = some_case(9, 7)
    values = [image, photo.astype(float), camera.astype(float)]

    def loss_of(image: np.ndarray, photo: np.ndarray, camera: np.ndarray) -> float:
        return ssim_loss.loss(isp.forward(image, photo, camera), photograph, SSIM_WEIGHT).value

    d_changed = ssim_loss.loss(isp.forward(*values), photograph, SSIM_WEIGHT).d_image
    gradients = isp.backward(*values, d_changed)
    rng = np.random.default_rng(0)
    for number in range(3):
        for _ in range(4):
            move = rng.normal(size=values[number].shape)
            loss = lambda x, n=number: loss_of(*values[:n], x, *values[n + 1 :])  # noqa: E731
            expected = central_difference(loss, values[number], move)
            np.testing.assert_allclose((gradients[number] * move).sum(), expected, rtol=1e-5, atol=1e-7)


class Taken(PassedLoss):
    """The second of three views, the camera's first, after a forward and a backward pass."""

    def __init__(self, backend: Backend, size: tuple[int, int]) -> None:
        self.image, self.photograph, self.photo, self.camera = some_case(*size)
        views = [dataclasses.replace(unplaced_view(*size), camera_id=number) for number in (3, 7, 7)]
        cameras = CameraTable(backend, views, [backend.upload(self.photograph)] * 3)
        loss = IspLoss(backend, cameras, SSIM_WEIGHT, PHOTO_DECAY, PHOTO_WEIGHT, CAMERA_DECAY, CAMERA_WEIGHT)
        loss.photo_params[1, 0] = backend.upload(self.photo)
        loss.camera_params[1, 0] = backend.upload(self.camera)
        loss.camera_steps[1] = CAMERA_STEPS
        super().__init__(backend, loss, self.image, STEP)


@pytest.mark.parametrize("size", SIZES, ids="{0[0]}x{0[1]}".format)
def test_picture_and_gradients(backend: Backend, comparison: Comparison, size: tuple[int, int]) -> None:
    case = Taken(backend, size)
    values = case.image, case.photo.astype(float), case.camera.astype(float)
    changed = isp.forward(*values)
    comparison.check("apply_isp", "picture", case.download(case.loss.corrected), changed.ravel(), FORWARD)
    d_changed = ssim_loss.loss(changed, case.photograph, SSIM_WEIGHT).d_image
    d_image, d_photo, d_camera = isp.backward(*values, d_changed)
    comparison.check("apply_isp_backward", "d image", case.download(case.d_image), d_image.ravel(), BACKWARD)
    sums = case.download(case.loss.d_isp).sum(axis=0)
    gain = 2 ** case.photo[0].astype(float)
    comparison.check("apply_isp_backward", "d matrix", gain * sums[:12], d_photo[1:], BACKWARD)
    comparison.check("apply_isp_backward", "d camera", sums[12:], d_camera, BACKWARD)


def test_step(backend: Backend, comparison: Comparison) -> None:
    case = Taken(backend, SIZES[0])
    values = case.image, case.photo.astype(float), case.camera.astype(float)
    d_changed = ssim_loss.loss(isp.forward(*values), case.photograph, SSIM_WEIGHT).d_image
    _, d_photo, d_camera = isp.backward(*values, d_changed)
    case.loss.step(case.state)
    moved = [
        (case.loss.photo_params, case.photo, d_photo, PHOTO_WEIGHT, PHOTO_DECAY, 2),  # of three views, step 6
        (case.loss.camera_params, case.camera, d_camera, CAMERA_WEIGHT, CAMERA_DECAY, CAMERA_STEPS + 1),
    ]
    for array, start, gradient, weight, decay, count in moved:
        start = start.astype(float)
        rate = np.full(start.size, decay.first * (decay.last / decay.first) ** (STEP / decay.steps))
        if array is case.loss.photo_params:
            rate *= np.array([2.5, *[0.5] * 12])
        zeros, column = np.zeros((start.size, 1)), (gradient + 2 * weight * start)[:, None]
        expected = adam.step(start[:, None], column, zeros, zeros, rate, count)
        actual = case.download(array)
        comparison.check("step_isp", "update", actual[1, 0] - start, expected[0][:, 0] - start, BACKWARD)
        comparison.check("step_isp", "moments", actual[1, 1:].T, np.stack(expected[1:])[:, :, 0].T, BACKWARD)
        assert not actual[0].any()
    assert case.download(case.loss.camera_steps).tolist() == [0, CAMERA_STEPS + 1]


def test_short_runs_have_higher_rates() -> None:
    config = ResolvedConfig(steps=1000, lr_exposure=1e-3, lr_exposure_final=1e-4)
    assert photo_decay(config, num_views=40) == Decay(4e-3, 4e-4, 1000)
    assert photo_decay(config, num_views=10) == photo_decay(config, num_views=5) == Decay(1e-3, 1e-4, 1000)


def test_curves_keep_rising(backend: Backend) -> None:
    case = Taken(backend, SIZES[2])
    values = case.camera.reshape(-1).copy()
    values[[3, 4]] = 3.0, -1.0
    case.loss.camera_params[1, 0] = backend.upload(values)
    case.loss.step(case.state)
    b = case.download(case.loss.camera_params)[1, 0, 3:5]
    assert np.abs(b).sum() == pytest.approx(0.9, abs=1e-6)
    assert b[0] / b[1] == pytest.approx(-3, abs=0.2)
    assert (np.diff(isp.curve(np.linspace(-0.5, 1.5, 1000), b)) > 0).all()


@pytest.mark.parametrize("broken", [{"overflowed": 1}, {"loss_ssim": np.nan}])
def test_nothing_moves_in_a_skipped_step(backend: Backend, broken: dict) -> None:
    case = Taken(backend, SIZES[2])
    case.state.write(**broken)
    case.loss.step(case.state)
    np.testing.assert_array_equal(case.download(case.loss.photo_params)[1, 0], case.photo)
    np.testing.assert_array_equal(case.download(case.loss.camera_params)[1, 0], case.camera)


def test_a_nonfinite_gradient_changes_nothing(backend: Backend) -> None:
    case = Taken(backend, SIZES[2])
    case.loss.d_isp[3, 2] = np.nan
    case.loss.step(case.state)
    np.testing.assert_array_equal(case.download(case.loss.photo_params)[1, 0], case.photo)
    assert case.download(case.loss.camera_steps).tolist() == [0, CAMERA_STEPS]


def test_response_on_the_host_equals_the_reference(backend: Backend) -> None:
    case = Taken(backend, SIZES[0])
    found = case.loss.camera_responses()
    assert sorted(found) == [3, 7]
    read = CameraResponse.from_dict(found[7].to_dict())
    expected = isp.forward(case.image, np.zeros(PHOTO_VALUES), case.camera.astype(float))
    np.testing.assert_allclose(read.apply(case.image.transpose(1, 2, 0)), expected.transpose(1, 2, 0), atol=1e-12)


def test_constraint_keeps_differences_between_photographs(backend: Backend) -> None:
    loss = Taken(backend, (5, 3)).loss
    before = loss.backend.download(loss.photo_params)[:, 0]
    loss.constrain()
    after = loss.backend.download(loss.photo_params)[:, 0]
    np.testing.assert_allclose(after.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(after[1] - after[0], before[1] - before[0], atol=1e-6)


def test_memory_cost_equals_the_allocation(backend: Backend) -> None:
    loss = Taken(backend, (50, 37)).loss
    cost = IspLoss.memory_cost(ResolvedConfig(appearance="camera"), num_views=3)
    assert cost.per_pixel * 50 * 37 == loss.corrected.nbytes


def test_mean_of_responses() -> None:
    one, other = (CameraResponse.of(np.arange(CAMERA_VALUES) + shift) for shift in (0.0, 2.0))
    assert CameraResponse.mean([one, other]).to_dict() == CameraResponse.of(np.arange(CAMERA_VALUES) + 1.0).to_dict()


@pytest.mark.parametrize(
    "content", [{}, [], {"center": [0, 0], "vignetting": [[0] * 3] * 3, "response": [[0, float("nan")]] * 3}]
)
def test_invalid_responses_are_refused(content: object) -> None:
    with pytest.raises(ValueError, match="camera"):
        CameraResponse.from_dict(content)
