"""FLIP, if installed: against the package, masked, and in metrics.json."""

import numpy as np
import pytest

from splat_cli.config import TrainConfig
from splat_cli.eval.metrics import Score, flip, has_flip, mean_score, protocol

pytest.importorskip("flip_evaluator")


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (40, 60, 3), dtype=np.uint8)
    y = x.copy()
    y[:, 30:] = 255 - y[:, 30:]
    return y, x


def test_equal_images_have_no_difference(pair):
    assert flip(pair[1], pair[1]) == pytest.approx(0, abs=1e-6)
    assert flip(*pair) > 0.1


def test_values_match_the_package(pair):
    package = pytest.importorskip("flip_evaluator")
    render, photograph = (image.astype(np.float32) / 255 for image in pair)
    expected = package.evaluate(photograph, render, "LDR", applyMagma=False, parameters={"ppd": 67.0})[0]
    assert has_flip()
    assert flip(*pair) == pytest.approx(np.mean(expected), rel=1e-6)


def test_black_and_white_have_the_largest_difference():
    black = np.zeros((32, 32, 3), np.uint8)
    assert flip(black + np.uint8(255), black) == pytest.approx(1, abs=0.05)


def test_masked_pixels_do_not_count(pair):
    left = np.zeros((40, 60), np.uint8)
    left[:, :20] = 255
    assert flip(*pair, left) < 0.1 * flip(*pair)


def test_protocol_states_the_resolution():
    assert "FLIP at 67 pixels per degree" in protocol(TrainConfig(), Score(20, 0.5, 0.1))


def test_mean_needs_flip_of_all_images():
    assert mean_score([Score(20, 0.5, 0.1), Score(30, 0.7, 0.3)]).flip == pytest.approx(0.2)
    assert mean_score([Score(20, 0.5, 0.1), Score(30, 0.7)]).flip is None
