"""The fused L1 and SSIM against its reference."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.joint.loss import PhotometricLoss
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from tests.compare import BACKWARD, FORWARD, Comparison
from tests.reference import ssim_loss
from tests.views import unplaced_view


@pytest.mark.parametrize("size", [(50, 37), (64, 32), (5, 3), (1, 1), (33, 70)], ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize("ssim_weight", [0.0, 0.2, 1.0])
def test_loss(
    backend: Backend, comparison: Comparison, size: tuple[int, int], masked: bool, ssim_weight: float
) -> None:
    rng = np.random.default_rng(size[0])
    width, height = size
    photograph = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    # Similar to the photograph, because SSIM compares structure, and partly outside the range 0 to 1.
    image = (0.7 * photograph / 255 + rng.uniform(-0.3, 0.7, photograph.shape)).transpose(2, 0, 1).astype(np.float32)
    mask = rng.uniform(size=(height, width)) < 0.7 if masked else None
    if mask is not None:
        mask[0, 0] = True
    expected = ssim_loss.loss(image.astype(np.float64), photograph, ssim_weight, mask)

    masks = [] if mask is None else [backend.upload(mask.astype(np.uint8) * 255)]
    cameras = CameraTable(backend, [unplaced_view(width, height)], [backend.upload(photograph)], masks)
    state = IterState(backend)
    loss = PhotometricLoss(backend, cameras, ssim_weight)
    rendered = backend.upload(image.ravel())
    d_image = backend.xp.full_like(rendered, np.nan)
    loss.forward(state, rendered)
    loss.backward(state, rendered, d_image)

    found, num = state.read(), 3 * (width * height if mask is None else mask.sum())
    figures = {
        "L1": (found["loss_l1"] / num, expected.l1),
        "SSIM": (found["loss_ssim"] / num, expected.ssim),
        "loss": (found["loss"], expected.value),
        "PSNR": (found["psnr"], expected_psnr(image, photograph, mask)),
    }
    for name, (actual, value) in figures.items():
        comparison.check("l1_ssim", name, np.array([actual]), np.array([value]), FORWARD)
    actual = backend.download(d_image).reshape(image.shape)
    comparison.check("l1_ssim_backward", "d image", actual, expected.d_image, BACKWARD)


def expected_psnr(image: np.ndarray, photograph: np.ndarray, mask: np.ndarray | None) -> float:
    """The loss of the image without clamping, over unmasked pixels."""
    squares = ((image - photograph.transpose(2, 0, 1) / 255) ** 2).mean(axis=0)
    return float(-10 * np.log10((squares if mask is None else squares[mask]).mean()))


def test_masked_pixels_do_not_count(backend: Backend) -> None:
    """Masked pixels may even be NaN."""
    rng = np.random.default_rng(0)
    photograph = rng.integers(0, 256, (20, 40, 3), dtype=np.uint8)
    mask = np.ones((20, 40), np.uint8)
    mask[5:9, 30:] = 0
    image = rng.uniform(0, 1, (3, 20, 40)).astype(np.float32)
    results = []
    for value in (0.5, np.nan):
        image[:, mask == 0] = value
        view = replace(unplaced_view(40, 20), name="masked")
        cameras = CameraTable(backend, [view], [backend.upload(photograph)], [backend.upload(mask)])
        state, rendered = IterState(backend), backend.upload(image.ravel())
        d_image = backend.xp.empty_like(rendered)
        loss = PhotometricLoss(backend, cameras, 0.2)
        loss.forward(state, rendered)
        loss.backward(state, rendered, d_image)
        results.append((float(state.read()["loss"]), backend.download(d_image).reshape(image.shape)))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-6)
    np.testing.assert_array_equal(results[0][1], results[1][1])
    assert not results[0][1][:, mask == 0].any()
