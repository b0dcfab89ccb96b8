"""Pinhole pictures of photographs through a lens."""

import numpy as np
import pytest

from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.lens.distortion import Equirectangular, Polynomial
from splat_cli.scene.plane_sweep import faces_of, pinhole_pictures
from splat_cli.scene.view import View
from tests.views import ring_of_views

FISHEYE = Polynomial((0.02, -0.003), fisheye=True)


def directions(view: View) -> np.ndarray:
    """A photograph of the directions in the world, uint8 [H, W, 3]."""
    rays = np.nan_to_num(view.rays()) @ view.w2c[:3, :3]
    return np.rint(127.5 * (1 + rays)).astype(np.uint8)


@pytest.mark.parametrize(
    ("lens", "focal", "size", "num"),
    [(Polynomial((0.1,)), 90.0, (100, 80), 1), (FISHEYE, 30.0, (96, 96), 5), (Equirectangular(), 30.6, (192, 96), 6)],
    ids=["narrow", "fisheye", "sphere"],
)
def test_faces_show_what_the_photograph_shows(lens, focal, size, num):
    base = ring_of_views(3)
    views = [View(v.name, None, *size, focal, focal, size[0] / 2, size[1] / 2, v.w2c, distortion=lens) for v in base]
    assert len(faces_of(views[0])) == num
    found = pinhole_pictures(ImageSet(views, [directions(v) for v in views], [None] * 3, []), 100, 512)
    assert len(found.views) == 3 * num
    for face, picture, mask in zip(found.views, found.images, found.masks, strict=True):
        assert face.distortion is None
        off = np.abs(picture.astype(float) - directions(face))[mask > 0]
        assert np.quantile(off, 0.95) < 2.5
        assert num == 5 or (mask > 0).mean() > 0.9


def test_photographs_of_pinhole_cameras_stay():
    photographs = ImageSet(ring_of_views(2), [np.zeros((30, 40, 3), np.uint8)] * 2, [None] * 2, [])
    assert pinhole_pictures(photographs, 1, 512) is photographs


def test_pictures_are_at_most_as_large_as_asked_for():
    base = ring_of_views(2)
    views = [View(v.name, None, 96, 96, 30.0, 30.0, 48.0, 48.0, v.w2c, distortion=FISHEYE) for v in base]
    found = pinhole_pictures(ImageSet(views, [directions(v) for v in views], [None] * 2, []), 100, 30)
    assert {(face.width, face.height) for face in found.views} == {(30, 30)}
    for face, picture, mask in zip(found.views, found.images, found.masks, strict=True):
        off = np.abs(picture.astype(float) - directions(face))[mask > 0]
        assert np.quantile(off, 0.95) < 6
