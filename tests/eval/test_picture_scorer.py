"""Scores computed on the device against those in float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splat_cli.device import Backend
from splat_cli.eval.metrics import PictureScorer
from splat_cli.render.images import to_8bit
from tests.reference.metrics import score


def picture_and_photograph(height: int, width: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """float32 [H, W, 3], partly outside of 0 to 1, and uint8 [H, W, 3]; smooth like photographs."""
    rng = np.random.default_rng(seed)
    y, x = np.indices((height, width))
    waves = np.sin(0.2 * x[..., None] + [0, 1, 2]) * np.cos(0.13 * y[..., None])
    photograph = to_8bit(0.5 + 0.45 * waves + rng.normal(0, 0.02, waves.shape))
    return (photograph / 255 + rng.normal(0, noise, waves.shape)).astype(np.float32), photograph


def check(backend: Backend, picture: np.ndarray, photograph: np.ndarray, mask: np.ndarray | None = None) -> None:
    scorer = PictureScorer(backend)
    found = scorer.score(backend.upload(np.ascontiguousarray(picture.transpose(2, 0, 1))), photograph, mask)
    expected = score(to_8bit(picture), photograph, mask)
    assert found.psnr == pytest.approx(expected.psnr, rel=1e-12)
    assert found.ssim == pytest.approx(expected.ssim, abs=5e-6)
    np.testing.assert_array_equal(backend.download(scorer.rounded), to_8bit(picture))


@settings(deadline=None, database=None, max_examples=20)
@given(
    st.integers(1, 70), st.integers(1, 70), st.sampled_from([0.0, 0.003, 0.1, 1.0]), st.booleans(), st.integers(0, 9)
)
def test_scores_match_float64(backend, height, width, noise, masked, seed):
    picture, photograph = picture_and_photograph(height, width, noise, seed)
    mask = np.random.default_rng(seed).choice(np.array([0, 1, 255], np.uint8), (height, width)) if masked else None
    if mask is not None:
        mask[0, 0] = 255
    check(backend, picture, photograph, mask)


def test_a_large_image(backend):
    check(backend, *picture_and_photograph(533, 800, 0.03))


def test_values_that_no_photograph_has(backend):
    picture, photograph = picture_and_photograph(16, 32, 0.1)
    picture[0, :6, 0] = np.nan, np.inf, -np.inf, -1, 2, 1e30
    check(backend, picture, photograph)


def test_ties_round_to_even(backend):
    values = ((np.arange(255, dtype=np.float64) + 0.5) / 255).astype(np.float32)
    picture = np.repeat(values.reshape(1, -1, 1), 3, axis=2)
    check(backend, picture, np.zeros((1, 255, 3), np.uint8))


def test_equal_images_score_best(backend):
    _, photograph = picture_and_photograph(40, 50, 0)
    scorer, planes = PictureScorer(backend), np.ascontiguousarray(photograph.transpose(2, 0, 1) / np.float32(255))
    found = scorer.score(backend.upload(planes), photograph)
    assert found.psnr == 100
    assert found.ssim == pytest.approx(1, abs=1e-6)
