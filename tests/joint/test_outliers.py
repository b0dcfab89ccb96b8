"""Outliers of renders against the reference, and the loss without them."""

import numpy as np
import pytest

from splat_cli.config import ResolvedConfig
from splat_cli.device import Backend
from splat_cli.joint.loss import PhotometricLoss
from splat_cli.joint.outliers import FRACTION, QUANTILE, OutlierMask
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.scene.view import View
from tests.compare import BACKWARD, FORWARD, Comparison
from tests.reference import outliers, ssim_loss

FACTOR, SSIM_WEIGHT = 3.0, 0.2
SIZES = [(50, 37), (64, 32), (5, 3), (201, 130)]


class Crossed:
    """A view whose photograph equals the render except for noise and a box."""

    def __init__(self, backend: Backend, size: tuple[int, int], masked: bool = False, start: int = 0) -> None:
        self.backend, (width, height) = backend, size
        rng = np.random.default_rng(width)
        self.photograph = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        image = self.photograph.transpose(2, 0, 1) / 255 + rng.normal(0, 0.03, (3, height, width))
        image[:, : height // 2, width // 3 : width // 2] += 0.4
        self.image = image.astype(np.float32)
        self.kept = rng.uniform(size=(height, width)) < 0.8 if masked else np.ones((height, width), bool)
        masks = [backend.upload(self.kept.astype(np.uint8))] if masked else []
        view = View("view", None, width, height, 1.0, 1.0, 0.0, 0.0, np.eye(4))
        self.cameras = CameraTable(backend, [view], [backend.upload(self.photograph)], masks)
        self.mask = OutlierMask(backend, self.cameras, FACTOR, start)
        self.state, self.rendered = IterState(backend, step=7), backend.upload(self.image.ravel())
        self.residuals = outliers.residuals(self.image.astype(float), self.photograph)

    def found(self) -> np.ndarray:
        """The outliers, bool [H, W]."""
        self.mask.find(self.state, self.rendered)
        return self.backend.download(self.mask.outliers).reshape(self.kept.shape) > 0

    def learned(self) -> np.ndarray:
        return self.backend.download(self.mask.learned)


@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize("size", SIZES, ids="{0[0]}x{0[1]}".format)
def test_outliers_and_threshold(backend: Backend, comparison: Comparison, size: tuple[int, int], masked: bool) -> None:
    case = Crossed(backend, size, masked)
    case.mask.learn(case.state, case.rendered)
    histogram = outliers.histogram(case.residuals, case.kept)
    np.testing.assert_allclose(case.learned()[1:], histogram, atol=1.01 / case.kept.sum())
    expected = FACTOR * outliers.quantile(case.learned()[1:].astype(float), QUANTILE)
    comparison.check("learn_threshold", "threshold", case.learned()[:1], np.array([expected]), FORWARD)
    found = outliers.find(case.residuals, case.kept, float(case.learned()[0]), FRACTION)
    np.testing.assert_array_equal(case.found(), found)


def test_the_box_is_found(backend: Backend) -> None:
    case = Crossed(backend, (201, 130))
    case.mask.learn(case.state, case.rendered)
    box = np.zeros(case.kept.shape, bool)
    box[:65, 67:100] = True
    assert (case.found() == box).mean() > 0.99


def test_earlier_views_fade(backend: Backend) -> None:
    case = Crossed(backend, (50, 37))
    case.mask.learn(case.state, case.rendered)
    once = case.learned()[1:]
    case.mask.learn(case.state, case.rendered)
    np.testing.assert_allclose(case.learned()[1:], (1 + case.mask.keep) * once, rtol=1e-5)
    assert not case.backend.download(case.mask.counts).any()


@pytest.mark.parametrize("state", [{"step": 7}, {"step": 8, "overflowed": 1}])
def test_every_pixel_counts_until_the_start(backend: Backend, state: dict) -> None:
    case = Crossed(backend, (50, 37), start=7)
    case.mask.learn(case.state, case.rendered)
    case.state.write(**state)
    assert not case.found().any()


@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
def test_loss_without_outliers(backend: Backend, comparison: Comparison, masked: bool) -> None:
    """The gradient is the same as with a mask of these pixels, except for the number of pixels in the mean."""
    case = Crossed(backend, (64, 45), masked)
    case.mask.learn(case.state, case.rendered)
    case.state.write(step=1)  # the running mean starts here
    loss = PhotometricLoss(backend, case.cameras, SSIM_WEIGHT)
    loss.mask = case.mask
    d_image = backend.xp.full_like(case.rendered, np.nan)
    loss.forward(case.state, case.rendered)
    left = case.kept & (backend.download(case.mask.outliers).reshape(case.kept.shape) == 0)
    loss.backward(case.state, case.rendered, d_image)
    assert 0 < left.sum() < case.kept.sum()
    share = left.sum() / case.kept.sum()
    expected = ssim_loss.loss(case.image.astype(float), case.photograph, SSIM_WEIGHT, left)
    comparison.check(
        "l1_ssim", "loss", np.array([case.state.read()["loss"]]), np.array([share * expected.value]), FORWARD
    )
    actual = backend.download(d_image).reshape(case.image.shape)
    comparison.check("l1_ssim_backward", "d image", actual, share * expected.d_image, BACKWARD)


def test_memory_cost_equals_the_allocation(backend: Backend) -> None:
    case = Crossed(backend, (50, 37))
    assert OutlierMask.memory_cost(ResolvedConfig(robust=True), 1).per_pixel * 50 * 37 == case.mask.outliers.nbytes
