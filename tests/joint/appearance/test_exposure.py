"""Exposure: pictures, gradients and steps against the reference; the reference against central differences."""

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.joint.appearance.exposure import ExposureLoss, exposure_spread
from splat_cli.joint.joint_model import Decay
from splat_cli.render.camera import CameraTable
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.view import View
from tests.compare import BACKWARD, FORWARD, Comparison
from tests.joint.passed_loss import PassedLoss
from tests.reference import adam, exposure, ssim_loss
from tests.reference.pipeline import central_difference
from tests.views import unplaced_view

DECAY, WEIGHT, SSIM_WEIGHT = Decay(first=1e-2, last=1e-3, steps=100), 0.3, 0.2
SIZES = [(50, 37), (64, 32), (5, 3), (301, 200)]


def some_case(width: int, height: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A picture [3, H, W], a similar photograph uint8 [H, W, 3], and D [3, 4]."""
    rng = np.random.default_rng(width)
    photograph = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    image = (0.7 * photograph / 255 + rng.uniform(-0.3, 0.7, photograph.shape)).transpose(2, 0, 1)
    return image.astype(np.float32).astype(float), photograph, rng.normal(0, 0.1, (3, 4)).astype(np.float32)


def test_reference_against_central_differences() -> None:
    image, photograph, difference = some_case(9, 7)

    def loss_of(image: np.ndarray, difference: np.ndarray) -> float:
        return ssim_loss.loss(exposure.forward(image, difference), photograph, SSIM_WEIGHT).value

    d_exposed = ssim_loss.loss(exposure.forward(image, difference), photograph, SSIM_WEIGHT).d_image
    d_image, d_difference = exposure.backward(image, difference, d_exposed)
    rng = np.random.default_rng(0)
    for _ in range(4):
        moves = rng.normal(size=image.shape), rng.normal(size=difference.shape)
        by_image = central_difference(lambda x: loss_of(x, difference), image, moves[0])
        by_difference = central_difference(lambda d: loss_of(image, d), difference.astype(float), moves[1])
        np.testing.assert_allclose(
            [(d_image * moves[0]).sum(), (d_difference * moves[1]).sum()],
            [by_image, by_difference],
            rtol=1e-5,
            atol=1e-8,
        )


class Exposed(PassedLoss):
    """The second of two views, exposed by D, after a forward and a backward pass."""

    def __init__(self, backend: Backend, size: tuple[int, int]) -> None:
        self.image, self.photograph, self.difference = some_case(*size)
        views = [unplaced_view(*size)] * 2
        cameras = CameraTable(backend, views, [backend.upload(self.photograph)] * 2)
        loss = ExposureLoss(backend, cameras, SSIM_WEIGHT, DECAY, WEIGHT)
        loss.exposures[1, 0] = backend.upload(self.difference.ravel())
        super().__init__(backend, loss, self.image)


@pytest.mark.parametrize("size", SIZES, ids="{0[0]}x{0[1]}".format)
def test_picture_and_gradients(backend: Backend, comparison: Comparison, size: tuple[int, int]) -> None:
    case = Exposed(backend, size)
    exposed = exposure.forward(case.image, case.difference)
    comparison.check("apply_exposure", "picture", case.download(case.loss.corrected), exposed.ravel(), FORWARD)
    d_exposed = ssim_loss.loss(exposed, case.photograph, SSIM_WEIGHT).d_image
    d_image, d_difference = exposure.backward(case.image, case.difference, d_exposed)
    comparison.check("apply_exposure_backward", "d image", case.download(case.d_image), d_image.ravel(), BACKWARD)
    sums = case.download(case.loss.d_exposure).sum(axis=0)
    comparison.check("apply_exposure_backward", "d exposure", sums, d_difference.ravel(), BACKWARD)


def test_step(backend: Backend, comparison: Comparison) -> None:
    case = Exposed(backend, SIZES[0])
    gradient = case.download(case.loss.d_exposure).sum(axis=0) + 2 * WEIGHT * case.difference.ravel()
    case.loss.step(case.state)
    zeros, rate = np.zeros((12, 1)), DECAY.first * (DECAY.last / DECAY.first) ** (6 / DECAY.steps)
    start = case.difference.ravel().astype(float)
    round_of_view = 3  # two views, step 6
    moved = adam.step(start[:, None], gradient[:, None], zeros, zeros, np.full(12, rate), round_of_view)
    actual = case.download(case.loss.exposures)
    comparison.check("step_exposure", "update", actual[1, 0] - start, moved[0][:, 0] - start, BACKWARD)
    comparison.check("step_exposure", "moments", actual[1, 1:].T, np.stack(moved[1:])[:, :, 0].T, FORWARD)
    assert not actual[0].any()
    np.testing.assert_allclose(case.loss.matrices()[1], np.eye(3, 4) + actual[1, 0].reshape(3, 4), rtol=1e-6)


@pytest.mark.parametrize("broken", [{"overflowed": 1}, {"loss_ssim": np.nan}])
def test_nothing_moves_in_a_skipped_step(backend: Backend, broken: dict) -> None:
    case = Exposed(backend, SIZES[2])
    case.state.write(**broken)
    case.loss.step(case.state)
    np.testing.assert_array_equal(case.download(case.loss.exposures)[1, 0], case.difference.ravel())


def test_centred_exposures_keep_their_differences(backend: Backend) -> None:
    loss = Exposed(backend, (5, 3)).loss
    before = loss.matrices()
    loss.constrain()
    after = loss.matrices()
    np.testing.assert_allclose(after.mean(axis=0), np.eye(3, 4), atol=1e-6)
    np.testing.assert_allclose(after[1] - after[0], before[1] - before[0], atol=1e-6)


@pytest.mark.parametrize(
    ("gains", "spread"),
    [
        ([1.0, 0.8] * 6, np.log(1.25)),
        ([1.03**i for i in range(12)], np.log(1.03)),  # changes slowly along the path
    ],
)
def test_spread_of_neighbouring_exposures(gains: list[float], spread: float) -> None:
    photographs, points = wall(gains)
    assert exposure_spread(photographs, points) == pytest.approx(spread, abs=0.01)
    assert exposure_spread(photographs, points[:20]) == 0
    assert exposure_spread(photographs, points[:0]) == 0


@pytest.mark.parametrize(("level", "masked"), [(3, False), (255, False), (100, True)])
def test_dark_saturated_and_masked_pixels_have_no_exposure(level: int, masked: bool) -> None:
    photographs, points = wall([1.0, 0.8] * 6)
    for image in photographs.images[::2]:
        image[:, :30] = level
    if masked:
        mask = np.full((30, 40), 255, np.uint8)
        mask[:, :30] = 0
        photographs = photographs._replace(masks=[mask] * 12)
    assert exposure_spread(photographs, points) == pytest.approx(np.log(1.25), abs=0.01)


def test_cameras_that_look_elsewhere_are_not_neighbours() -> None:
    photographs, points = wall([1.0, 0.8] * 12, turns=(-0.25, 0.25))
    assert exposure_spread(photographs, points) == pytest.approx(0, abs=0.02)


def wall(gains: list[float], turns: tuple[float, ...] = (0.0,)) -> tuple[ImageSet, np.ndarray]:
    """Photographs 40x30, with these exposures, from a row of cameras in front of a wall, and points on the wall.

    turns: angles in radians of the cameras at each place in the row.
    """
    views, images = [], []
    for i, gain in enumerate(gains):
        place, turn = 0.1 * (i // len(turns)), turns[i % len(turns)]
        cos, sin = np.cos(turn), np.sin(turn)
        w2c = np.array([[cos, 0, -sin, -place * cos], [0, 1, 0, 0], [sin, 0, cos, -place * sin], [0, 0, 0, 1]])
        views.append(View(f"{i}.png", None, 40, 30, 40.0, 40.0, 20.0, 15.0, w2c))
        slopes = (np.arange(40) + 0.5 - 20) / 40
        x = place + 4 * (cos * slopes + sin) / (cos - sin * slopes)  # on the wall, 4 in front of the camera
        levels = gain * (120 + 40 * np.sin(3 * x))
        images.append(np.broadcast_to(levels[:, None], (30, 40, 3)).astype(np.uint8))
    rng = np.random.default_rng(0)
    points = np.stack([rng.uniform(-2, 3, 800), rng.uniform(-1.4, 1.4, 800), np.full(800, 4.0)], axis=1)
    return ImageSet(views, images, [None] * len(views), []), points
