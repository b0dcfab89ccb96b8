"""Codebooks of numbers and palettes of vectors, as in SOG files."""

import numpy as np
import pytest

from splat_cli.gaussians.formats.sog import CODES, codebook, nearest_codes, palette


@pytest.mark.parametrize("count", [0, 1, 3, 255, 256])
def test_few_numbers_are_kept_as_they_are(count):
    values = np.random.default_rng(0).normal(size=count)
    codes = codebook(values)
    assert codes.shape == (CODES,)
    assert (np.diff(codes) >= 0).all()
    np.testing.assert_allclose(codes[nearest_codes(values, codes)], values, atol=0.02)


def test_codes_are_near_the_many_and_not_far_from_the_few():
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(0, 0.1, 100_000), rng.uniform(-10, 10, 300)])
    codes = codebook(values)
    error = np.abs(codes[nearest_codes(values, codes)] - values)
    even_step = np.ptp(values) / CODES
    assert error[:100_000].mean() < 0.05 * even_step
    assert error.max() < 2 * even_step


def test_each_number_gets_its_nearest_code():
    rng = np.random.default_rng(2)
    values, codes = rng.normal(size=(40, 3)), np.sort(rng.normal(size=CODES)).astype(np.float32)
    np.testing.assert_array_equal(nearest_codes(values, codes), np.abs(values[..., None] - codes).argmin(axis=-1))


def test_palette_of_few_vectors_is_the_vectors():
    vectors = np.random.default_rng(3).normal(size=(10, 4)).astype(np.float32)
    entries, labels = palette(vectors, 16)
    np.testing.assert_array_equal(entries[labels], vectors)


def test_palette_finds_what_repeats():
    rng = np.random.default_rng(4)
    middles = rng.normal(size=(50, 9))
    vectors = (middles[rng.integers(50, size=3000)] + rng.normal(0, 0.01, (3000, 9))).astype(np.float32)
    entries, labels = palette(vectors, 400)
    assert len(entries) <= 400
    assert np.sqrt(np.mean((entries[labels] - vectors) ** 2)) < 0.012
    again, _ = palette(vectors, 400)
    np.testing.assert_array_equal(again, entries)


def test_palette_of_equal_vectors():
    entries, labels = palette(np.ones((100, 3), np.float32), 8)
    np.testing.assert_array_equal(entries[labels], np.ones((100, 3)))
