"""PSNR and SSIM against plain definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splat_cli.config import TrainConfig
from splat_cli.eval.evaluate import fit_color_on_left_half
from splat_cli.eval.metrics import Score, mean_score, protocol, psnr
from splat_cli.render.images import to_8bit
from tests.reference.metrics import score, ssim


def _pair(height, width, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    return x, np.clip(x.astype(int) + rng.integers(-40, 41, x.shape), 0, 255).astype(np.uint8)


def _plain_ssim(x, y):
    """The window written out as 121 shifted sums."""
    weights = np.exp(-(np.arange(-5, 6) ** 2) / (2 * 1.5**2))
    weights /= weights.sum()

    def mean(image):
        padded = np.pad(image, ((5, 5), (5, 5), (0, 0)))
        height, width = image.shape[:2]
        return sum(
            weights[i] * weights[j] * padded[i : i + height, j : j + width] for i in range(11) for j in range(11)
        )

    x, y = x / 255, y / 255
    mx, my = mean(x), mean(y)
    vx, vy, vxy = mean(x * x) - mx**2, mean(y * y) - my**2, mean(x * y) - mx * my
    c1, c2 = 0.01**2, 0.03**2
    return np.mean((2 * mx * my + c1) * (2 * vxy + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2)))


@settings(deadline=None, database=None, max_examples=30)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(0, 99))
def test_ssim_is_the_mean_of_its_definition(height, width, seed):
    x, y = _pair(height, width, seed)
    assert ssim(x, y) == pytest.approx(_plain_ssim(x, y), abs=1e-12)


def test_equal_images():
    x, _ = _pair(30, 40)
    assert ssim(x, x) == pytest.approx(1)
    assert psnr(x, x) == 100


def test_psnr_of_a_known_difference():
    x = np.zeros((4, 5, 3), np.uint8)
    y = x + np.uint8(255)
    assert psnr(x, y) == pytest.approx(0)
    assert psnr(x, x + np.uint8(1)) == pytest.approx(20 * np.log10(255))


def test_mean_is_over_images_not_pixels():
    assert mean_score([Score(20, 0.5), Score(30, 0.7)]) == Score(25, pytest.approx(0.6))


def test_a_photograph_of_another_exposure_fits():
    rng = np.random.default_rng(0)
    render = rng.uniform(0.1, 0.7, (20, 31, 3)).astype(np.float32)
    matrix = np.array([[1.1, 0.05, 0], [-0.1, 0.9, 0.1], [0, 0, 1.2]])
    photograph = to_8bit(render @ matrix.T + 0.03)
    fitted, right, mask = fit_color_on_left_half(render, photograph, None)
    assert mask is None
    np.testing.assert_array_equal(right, photograph[:, 15:])
    assert psnr(to_8bit(render), photograph) < 25
    assert psnr(fitted, right) > 55


def test_only_the_left_half_decides_the_fit():
    rng = np.random.default_rng(0)
    render = rng.uniform(0.2, 0.7, (20, 30, 3)).astype(np.float32)
    photograph = to_8bit(render)
    photograph[:, 15:] += 40
    mask = np.ones((20, 30), np.uint8)
    photograph[:10, :15], mask[:10, :15] = 0, 0  # a part outside the mask
    fitted, right, _ = fit_color_on_left_half(render, photograph, mask)
    np.testing.assert_allclose(right.astype(int) - fitted, 40, atol=1)


def test_mask_without_a_right_half():
    render, mask = np.full((4, 6, 3), 0.5, np.float32), np.zeros((4, 6), np.uint8)
    mask[:, :2] = 255
    fitted, photograph, kept = fit_color_on_left_half(render, np.zeros((4, 6, 3), np.uint8), mask)
    assert fitted.shape == photograph.shape == (4, 6, 3)
    assert kept is mask


def test_rounding_to_8_bits():
    assert to_8bit(np.array([-1, 0.5 / 255 + 1e-6, 0.5, 2, np.nan, np.inf])).tolist() == [0, 1, 128, 255, 0, 255]


def test_protocol_states_whether_images_were_held_out():
    assert "numbers 0, 8, 16, ..." in protocol(TrainConfig(eval=True), Score(20, 0.5))
    assert "NOT held out" in protocol(TrainConfig(eval=False), Score(20, 0.5))


def test_masked_pixels_do_not_count():
    x, y = _pair(24, 32)
    mask = np.full((24, 32), 255, np.uint8)
    mask[:, 16:] = 0
    half = np.concatenate([x[:, :16], y[:, 16:]], axis=1)
    assert score(half, x, mask).to_dict() == {"psnr": 100, "ssim": pytest.approx(1)}
    assert score(y, x, mask).psnr == pytest.approx(psnr(y[:, :16], x[:, :16]))
    assert score(y, x, mask).ssim < 0.99
    mask[0, 0] = 1  # any value except 0 counts
    assert score(y, x, mask) == score(y, x, np.minimum(mask, 1))


def test_colors_of_a_diverged_model_are_fitted_as_they_are_shown():
    """Not finite: black or white, as `to_8bit` shows them."""
    render = np.full((4, 6, 3), np.nan, np.float32)
    render[0] = np.inf
    fitted, right, _ = fit_color_on_left_half(render, np.full((4, 6, 3), 90, np.uint8), None)
    assert fitted.shape == right.shape == (4, 3, 3)
