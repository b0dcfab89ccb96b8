"""Ignored pixels: mask files, and transparent pixels over the background."""

import dataclasses

import numpy as np
import pytest
from PIL import Image as Picture

from splat_cli.errors import SceneError
from splat_cli.scene import load_images
from splat_cli.scene.colmap.model import Camera, lens_of
from splat_cli.scene.images.decode import has_alpha
from tests.scene.images.photographs import gradient, half_black, save, view_of


def transparent(tmp_path, name="t.png"):
    """The left half is transparent."""
    layers = np.dstack([gradient(), np.full((30, 40), 255, np.uint8)])
    layers[:, :20, 3] = 0
    return save(tmp_path, name, Picture.fromarray(layers))


@pytest.mark.parametrize("color", [(0, 0, 0), (255, 255, 255)])
def test_transparent_pixels_show_the_background(tmp_path, color):
    (image,) = load_images([view_of(transparent(tmp_path))], background=color).images
    np.testing.assert_array_equal(image[:, :20], np.broadcast_to(color, (30, 20, 3)))
    np.testing.assert_array_equal(image[:, 20:], gradient()[:, 20:])


@pytest.mark.parametrize("name", ["a.png", "a.webp", "a.jpg"])
def test_opaque_alpha_channels_are_not_transparency(tmp_path, name):
    """Training over a background of one colour would let splats leave it open."""
    assert has_alpha(transparent(tmp_path, "t.png"))
    opaque = Picture.fromarray(gradient()).convert("RGBA")
    assert not has_alpha(save(tmp_path, name, opaque, format="PNG" if name == "a.jpg" else None))


def test_transparent_palette(tmp_path):
    picture = Picture.fromarray(gradient()).quantize(64)
    (image,) = load_images(
        [view_of(save(tmp_path, "p.png", picture, transparency=bytes([0] * 32 + [255] * 32)))], background=(9, 8, 7)
    ).images
    hidden = np.asarray(picture) < 32
    assert 0 < hidden.mean() < 1
    np.testing.assert_array_equal(image[hidden], np.broadcast_to((9, 8, 7), (hidden.sum(), 3)))


def invisible(tmp_path, name, alpha=0, mode="RGBA"):
    layers = np.dstack([gradient(), np.full((30, 40), alpha, np.uint8)])
    return save(tmp_path, name, Picture.fromarray(layers).convert(mode))


@pytest.mark.parametrize("background", [(0, 0, 0), (255, 255, 255), None])
@pytest.mark.parametrize(("alpha", "mode"), [(0, "RGBA"), (2, "RGBA"), (0, "LA")])
def test_wholly_transparent_photographs_are_left_out(tmp_path, alpha, mode, background):
    """Training must not learn an empty scene from them."""
    good = save(tmp_path, "good.png", Picture.fromarray(gradient()))
    views = [view_of(invisible(tmp_path, "a.png", alpha, mode)), view_of(good)]
    found = load_images(views, background=background)
    assert ([view.name for view in found.views], found.skipped) == (["good.png"], ["a.png: is wholly transparent"])
    with pytest.raises(SceneError, match="none of the 1 photographs can be used: a.png: is wholly transparent; export"):
        load_images(views[:1], background=background)


def test_transparent_pixels_need_a_background_of_one_colour(tmp_path):
    good = save(tmp_path, "good.png", Picture.fromarray(gradient()))
    found = load_images([view_of(transparent(tmp_path)), view_of(good)], background=None)
    assert [view.name for view in found.views] == ["good.png"]
    assert "--background black or white" in found.skipped[0]


def masked(tmp_path, mask, **size):
    photo = save(tmp_path, "a.png", Picture.fromarray(gradient()))
    path = save(tmp_path, "mask.png", mask)
    return dataclasses.replace(view_of(photo, **size), mask=path)


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("kind", ["L", "1", "RGB", "P", "16 bits", "0 and 1", "twice the size"])
def test_mask(tmp_path, kind, inverted):
    mask = half_black(80, 60) if kind == "twice the size" else half_black()
    if kind == "16 bits":
        mask = Picture.fromarray(np.asarray(mask).astype(np.uint16) * 257)
    elif kind == "0 and 1":
        mask = Picture.fromarray(np.asarray(mask) // 255)
    elif kind != "twice the size":
        mask = mask.convert(kind)
    (values,) = load_images([masked(tmp_path, mask)], invert_masks=inverted).masks
    assert values.dtype == np.uint8
    np.testing.assert_array_equal(values, 255 - np.asarray(half_black()) if inverted else np.asarray(half_black()))


def test_downscaled_pixel_counts_if_all_its_source_pixels_count(tmp_path):
    values = np.full((30, 40), 255, np.uint8)
    values[:, :21] = 0
    (mask,) = load_images([masked(tmp_path, Picture.fromarray(values), width=20, height=15)]).masks
    np.testing.assert_array_equal(mask[7], [0] * 11 + [255] * 9)


@pytest.mark.parametrize(("name", "options"), [("a.png", {}), ("a.jpg", {"quality": 95, "subsampling": 0})])
@pytest.mark.parametrize("factor", [1, 2, 4])
def test_masked_pixels_change_no_others(tmp_path, name, options, factor):
    """Filters mix neighbours, and decoders of small JPEG pictures whole blocks; the mask ends between two blocks."""
    photo, found = np.asarray(Picture.fromarray(gradient()).resize((160, 120))).copy(), []
    mask = np.full((120, 160), 255, np.uint8)
    mask[:, :48] = 0
    for value in (0, 255):
        photo[:, :48] = value
        view = view_of(save(tmp_path, name, Picture.fromarray(photo), **options), 160 // factor, 120 // factor)
        found.append(load_images([dataclasses.replace(view, mask=save(tmp_path, "m.png", Picture.fromarray(mask)))]))
    black, white = (one.images[0] for one in found)
    kept = found[0].masks[0]
    np.testing.assert_array_equal(*((black, white) if factor > 1 else (black[kept > 0], white[kept > 0])))
    assert factor > 1 or (black[kept == 0] < 9).all(), "nothing mixes pixels, so pages show them as they are"
    assert factor > 1 or (white[kept == 0] > 246).all()


def test_pixels_that_the_lens_did_not_see_change_no_others(tmp_path, backend):
    lens = lens_of(Camera(1, "FISHEYE", 160, 120, (110.0, 108.0, 82.0, 58.0)))
    path, whole = save(tmp_path, "a.png", Picture.new("RGB", (160, 120), (200, 120, 60))), lens.pinhole
    view = dataclasses.replace(view_of(path, whole.width // 2, whole.height // 2), lens=lens)
    found = load_images([view], backend=backend)
    assert (found.masks[0] == 0).any()
    assert (found.images[0][found.masks[0] > 0] == [200, 120, 60]).all()


def test_mask_that_keeps_all_pixels_is_dropped(tmp_path):
    assert load_images([masked(tmp_path, Picture.new("L", (40, 30), 255))]).masks == [None]


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (Picture.new("L", (40, 30), 0), "excludes all pixels"),
        (Picture.new("L", (30, 40), 255), "is 30x40, the photograph 40x30"),
        (Picture.new("L", (400, 300), 255), "is 400x300"),
        (Picture.fromarray(np.dstack([gradient(), np.asarray(half_black())])), "mask.png is transparent in places"),
        (Picture.fromarray(gradient()).quantize(8), "mask.png is a colour picture, expected black and white"),
    ],
)
def test_mask_that_cannot_be_used(tmp_path, mask, reason):
    good = view_of(save(tmp_path, "good.png", Picture.fromarray(gradient())))
    found = load_images([masked(tmp_path, mask), good])
    assert [view.name for view in found.views] == ["good.png"]
    assert reason in found.skipped[0]


def test_mask_that_is_missing(tmp_path):
    good, lost = (save(tmp_path, name, Picture.fromarray(gradient())) for name in ("a.png", "b.png"))
    views = [view_of(good), dataclasses.replace(view_of(lost), mask=tmp_path / "masks" / "b.png")]
    assert load_images(views).skipped == ["b.png: its mask b.png is missing"]
