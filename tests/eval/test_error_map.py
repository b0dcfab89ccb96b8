"""Error maps: differences between render and photograph as colours."""

import numpy as np

from splat_cli.eval.metrics import COLORS, FULL_ERROR, error_map, side_by_side


def test_colours_show_differences():
    photograph = np.full((1, 4, 3), 100, np.uint8)
    render = photograph.copy()
    full = round(255 * FULL_ERROR)
    render[0, 1] += np.uint8(full // 5)
    render[0, 2] -= np.uint8(full)
    render[0, 3] = 255
    colors = error_map(render, photograph)[0]
    np.testing.assert_allclose(colors[[0, 2, 3]], COLORS[[0, -1, -1]])
    np.testing.assert_allclose(colors[1], COLORS[1], atol=2)


def test_masked_pixels_are_black():
    mask = np.array([[255, 0]], np.uint8)
    colors = error_map(np.zeros((1, 2, 3), np.uint8), np.full((1, 2, 3), 255, np.uint8), mask)
    np.testing.assert_array_equal(colors[0], COLORS[[-1, 0]])


def test_panels_stand_side_by_side():
    photograph, render = np.full((2, 3, 3), 9, np.uint8), np.full((2, 3, 3), 12, np.uint8)
    picture = side_by_side(render, photograph)
    assert picture.shape == (2, 25, 3)
    np.testing.assert_array_equal(picture[:, :3], photograph)
    np.testing.assert_array_equal(picture[:, 11:14], render)
