"""Fine detail of photographs."""

import numpy as np
import pytest
from PIL import Image

from splat_cli.scene.images.downscale import fine_detail

RNG = np.random.default_rng(0)


def picture(cell, noise=0.0, size=96):
    """Random squares of cell pixels, uint8 [size, size, 3], with Gaussian noise."""
    squares = RNG.integers(64, 192, (size // cell, size // cell, 3)).repeat(cell, axis=0).repeat(cell, axis=1)
    return np.clip(squares + RNG.normal(0, 1, squares.shape) * noise, 0, 255).astype(np.uint8)


def test_detail_is_what_half_the_size_loses():
    image = picture(4)
    half = Image.fromarray(image).reduce(2).resize((96, 96), Image.Resampling.BICUBIC)
    lost = np.square((image.astype(float) - np.asarray(half)) / 255).mean()
    assert lost > 1e-3
    assert fine_detail(image) == (pytest.approx(lost, rel=1e-4), 0)


def test_noise_is_not_detail():
    detail, noise = fine_detail(picture(96, noise=20))
    assert detail < 0.05 * noise
    assert 0.6 < noise / (20 / 255) ** 2 < 0.9  # the mean of four pixels keeps a quarter


def test_images_of_any_size_have_a_detail():
    assert fine_detail(np.zeros((3, 5, 3), np.uint8)) == (0, 0)
    assert fine_detail(picture(4)[:33, :35])[0] > 0
