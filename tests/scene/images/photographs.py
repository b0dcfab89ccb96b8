"""Photographs written for tests, and their decoded images."""

import numpy as np
from PIL import Image as Picture

from splat_cli.scene import View, load_images


def view_of(path, width=40, height=30):
    return View(path.name, path, width, height, 35.0, 35.0, width / 2, height / 2, np.eye(4))


def gradient(width=40, height=30):
    row, column = np.mgrid[:height, :width]
    return np.stack([column * 5, row * 7, 100 + 0 * row], axis=-1).astype(np.uint8)


def half_black(width=40, height=30):
    values = np.full((height, width), 255, np.uint8)
    values[:, : width // 2] = 0
    return Picture.fromarray(values)


def save(tmp_path, name, picture, **options):
    picture.save(tmp_path / name, **options)
    return tmp_path / name


def loaded(path, **size):
    found = load_images([view_of(path, **size)])
    assert found.skipped == []
    (image,) = found.images
    return image
