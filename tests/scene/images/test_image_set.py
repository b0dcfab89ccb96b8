"""Photographs decode to uint8 RGB of the view's size; broken ones are left out with a reason."""

import dataclasses
import io
import os
import struct
import zlib

import numpy as np
import pytest
from PIL import Image as Picture
from PIL import ImageCms
from PIL.PngImagePlugin import PngImageFile

from splat_cli.errors import SceneError
from splat_cli.io.image_files import FORMATS
from splat_cli.scene import load_images
from splat_cli.scene.images.decode import BRIGHT, COLORS, TURNED, ignored_by, image_size
from splat_cli.scene.images.image_set import ImageSet, mean_color
from tests.io.test_image_files import EPS
from tests.peak_memory import assert_little_memory
from tests.scene.images.photographs import gradient, half_black, loaded, save, view_of


def test_mean_color_counts_used_pixels(tmp_path):
    view, half = view_of(tmp_path / "a.png", 8, 8), np.repeat([255, 0], 4)[None].repeat(8, 0).astype(np.uint8)
    red, blue = (np.full((8, 8, 3), color, np.uint8) for color in ((255, 0, 0), (0, 0, 51)))
    red[:, 4:] = 255  # masked
    assert mean_color(ImageSet([view, view], [red, blue], [half, None], [])) == pytest.approx((1 / 3, 0, 2 / 15))
    assert mean_color(ImageSet([view], [red], [0 * half], [])) == (0, 0, 0)


def test_png_is_read_exactly(tmp_path):
    pixels = loaded(save(tmp_path, "a.png", Picture.fromarray(gradient())))
    assert pixels.dtype == np.uint8
    assert pixels.flags.c_contiguous
    np.testing.assert_array_equal(pixels, gradient())


def test_modes(tmp_path):
    color = Picture.fromarray(gradient())
    grey = np.asarray(color.convert("L"))
    np.testing.assert_array_equal(loaded(save(tmp_path, "l.png", color.convert("L"))), np.stack([grey] * 3, axis=-1))
    wide = Picture.fromarray(grey.astype(np.uint16) * 257)
    np.testing.assert_array_equal(loaded(save(tmp_path, "i16.png", wide)), np.stack([grey] * 3, axis=-1))
    np.testing.assert_array_equal(
        loaded(save(tmp_path, "i.tif", Picture.fromarray(grey.astype(np.int32) * 257))), np.stack([grey] * 3, axis=-1)
    )
    assert loaded(save(tmp_path, "one.png", color.convert("1"))).shape == (30, 40, 3)
    np.testing.assert_array_equal(loaded(save(tmp_path, "rgba.png", color.convert("RGBA"))), gradient())
    palette = loaded(save(tmp_path, "p.png", color.quantize(64)))
    assert np.abs(palette.astype(int) - gradient()).mean() < 12
    wide_color = Picture.fromarray(gradient()).convert("RGB")
    np.testing.assert_array_equal(loaded(save(tmp_path, "lossless.webp", wide_color, lossless=True)), gradient())
    np.testing.assert_array_equal(loaded(save(tmp_path, "a.tiff", wide_color, compression="tiff_lzw")), gradient())
    np.testing.assert_array_equal(
        loaded(save(tmp_path, "la.png", color.convert("L").convert("LA"))), np.stack([grey] * 3, axis=-1)
    )
    cmyk = loaded(save(tmp_path, "cmyk.jpg", color.convert("CMYK"), quality=95, subsampling=0))
    assert np.abs(cmyk.astype(int) - gradient()).mean() < 4


def test_floats_go_from_black_to_white(tmp_path):
    levels = np.linspace(-0.5, 1.5, 30 * 40, dtype=np.float32).reshape(30, 40)
    expected = np.rint(255 * np.clip(levels, 0, 1))
    np.testing.assert_array_equal(
        loaded(save(tmp_path, "f.tif", Picture.fromarray(levels))), np.stack([expected] * 3, axis=-1)
    )


@pytest.mark.parametrize(("scale", "offset"), [(1, 0), (257, 0), (1 << 23, 99)])
def test_range_of_32_bit_integers_follows_their_maximum(tmp_path, scale, offset):
    grey = np.linspace(0, 255, 30 * 40).astype(np.int32).reshape(30, 40)
    pixels = loaded(
        save(tmp_path, "i.tif", Picture.fromarray((grey.astype(np.int64) * scale + offset).astype(np.int32)))
    )
    np.testing.assert_array_equal(pixels, np.stack([grey] * 3, axis=-1))


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_photograph_that_unpacks_to_far_more_than_its_bytes(tmp_path, kind):
    good = save(tmp_path, "good.png", Picture.fromarray(gradient()))
    bomb = save(tmp_path, "bomb", Picture.new("L" if kind != "WEBP" else "RGB", (8000, 6000)), format=kind)
    views = [view_of(bomb, 8000, 6000), view_of(good)]
    found = assert_little_memory(lambda: load_images(views), 64 << 20)
    assert len(found.skipped) == 1
    assert "as no photograph has" in found.skipped[0]


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_special_files_are_left_out(tmp_path, kind):
    """Reading a pipe would hang, and a device has no end."""
    good, odd = save(tmp_path, "good.png", Picture.fromarray(gradient())), tmp_path / "odd.png"
    if kind == "pipe":
        os.mkfifo(odd)
    elif kind == "device":
        odd.symlink_to("/dev/zero")
    else:
        odd.mkdir()
    with pytest.raises(ValueError, match="regular file"):
        image_size(odd)
    found = load_images([view_of(odd), dataclasses.replace(view_of(good), mask=odd), view_of(good)])
    assert len(found.skipped) == 2
    assert all("is not a regular file" in reason for reason in found.skipped)


def test_eps_under_another_name_is_left_out(tmp_path):
    good = save(tmp_path, "good.png", Picture.fromarray(gradient()))
    (tmp_path / "a.png").write_bytes(EPS)
    found = load_images([view_of(tmp_path / "a.png"), view_of(good)])
    assert found.skipped == ["a.png: the file is empty or not an image"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_pixels_that_are_not_finite_are_masked(tmp_path, value):
    levels = np.full((30, 40), 0.6, np.float32)
    levels[10, 20:23] = value
    expected = np.where(np.isfinite(levels), 255, 0)
    broken, mask = save(tmp_path, "f.tif", Picture.fromarray(levels)), save(tmp_path, "m.png", half_black())
    found = load_images([view_of(broken), dataclasses.replace(view_of(broken), mask=mask)])
    np.testing.assert_array_equal(found.masks[0], expected)
    np.testing.assert_array_equal(found.masks[1], np.minimum(expected, half_black()))
    assert found.bad_pixels == {"f.tif": 3}
    small = load_images([view_of(broken, width=20, height=15)])
    assert [*zip(*np.nonzero(small.masks[0] == 0), strict=True)] == [(5, 10), (5, 11)]
    assert np.ptp(small.images[0]) == 0  # they do not darken their neighbours


def test_photograph_without_a_finite_pixel_is_left_out(tmp_path):
    good = save(tmp_path, "good.png", Picture.fromarray(gradient()))
    broken = save(tmp_path, "f.tif", Picture.fromarray(np.full((30, 40), np.nan, np.float32)))
    found = load_images([view_of(broken), view_of(good)])
    assert found.skipped == ["f.tif: cannot be decoded (no pixel is finite)"]


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_resized_without_a_shift(tmp_path, name):
    path = save(tmp_path, name, Picture.fromarray(gradient(200, 30)[:, :, [0, 0, 0]] // 4).resize((800, 600)))
    small = loaded(path, width=40, height=30)
    whole = loaded(path, width=800, height=600).astype(float)
    expected = whole.reshape(30, 20, 40, 20, 3).mean(axis=(1, 3))
    inner = slice(2, -2)
    assert np.abs(small - expected)[inner, inner].mean() < 3


@pytest.mark.parametrize(("name", "options"), [("a.jpg", {"quality": 100, "subsampling": 0}), ("a.png", {})])
def test_colours_of_a_profile_are_converted_to_srgb(tmp_path, name, options):
    """Here, the profile exchanges red and blue."""
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exchanged = srgb.replace(b"rXYZ", b"xXYZ").replace(b"bXYZ", b"rXYZ").replace(b"xXYZ", b"bXYZ")
    for profile, channels in ((srgb, [0, 1, 2]), (b"damaged", [0, 1, 2]), (exchanged, [2, 1, 0])):
        path = save(tmp_path, name, Picture.fromarray(gradient()), icc_profile=profile, **options)
        assert np.abs(loaded(path).astype(int) - gradient()[..., channels]).max() < 6


@pytest.mark.parametrize("orientation", [3, 6])
@pytest.mark.parametrize(
    ("name", "options"), [("a.jpg", {"quality": 100}), ("a.png", {}), ("a.tif", {}), ("a.tif", {"compression": "jpeg"})]
)
def test_exif_rotation_is_ignored(tmp_path, name, options, orientation):
    """Also that of TIFF files, which Pillow turns: COLMAP estimates poses of pixels as they are stored."""
    exif = Picture.Exif()
    exif[0x0112] = orientation
    path = save(tmp_path, name, Picture.fromarray(gradient()), exif=exif, **options)
    assert image_size(path) == (40, 30)
    assert np.abs(loaded(path).astype(int) - gradient()).max() < 12


@pytest.mark.parametrize("orientation", [1, 3])
def test_turns_are_found_without_decoding_pixels(tmp_path, monkeypatch, orientation):
    exif = Picture.Exif()
    exif[0x0112] = orientation
    monkeypatch.setattr(PngImageFile, "load", lambda image: pytest.fail("decodes pixels"))
    plain = Picture.fromarray(gradient())
    assert list(ignored_by(save(tmp_path, "plain.png", plain))) == []
    assert list(ignored_by(save(tmp_path, "a.png", plain, exif=exif))) == ([TURNED] if orientation == 3 else [])


def _with_code_points(path, primaries, transfer):
    """A PNG file with the chunk cICP, or an AVIF file with another one in its `nclx` box."""
    content = path.read_bytes()
    if path.suffix == ".png":
        chunk = b"cICP" + bytes([primaries, transfer, 0, 1])
        at = content.index(b"IDAT") - 4
        chunk = struct.pack(">I", 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
        path.write_bytes(content[:at] + chunk + content[at:])
    else:
        at = content.index(b"nclx") + 4
        path.write_bytes(content[:at] + struct.pack(">HH", primaries, transfer) + content[at + 4 :])
    return path


@pytest.mark.parametrize("name", ["a.png", "a.avif"])
@pytest.mark.parametrize(
    ("primaries", "transfer", "colors"),
    [(1, 13, None), (9, 16, "HDR (PQ)"), (9, 18, "HDR (HLG)"), (9, 14, "BT.2020"), (12, 13, "Display P3")],
)
def test_colors_by_code_points_are_named(tmp_path, name, primaries, transfer, colors):
    if name.endswith("avif") and "AVIF" not in FORMATS:
        pytest.skip("Pillow without AVIF")
    path = _with_code_points(save(tmp_path, name, Picture.fromarray(gradient())), primaries, transfer)
    assert list(ignored_by(path)) == ([COLORS.format(colors)] if colors else [])


@pytest.mark.parametrize(("most", "remarks"), [(1.0, []), (3.0, [BRIGHT])])
def test_floating_point_pixels_over_white_are_named(tmp_path, most, remarks):
    values = np.linspace(0, most, 40 * 30, dtype=np.float32).reshape(30, 40)
    values[0, 0] = np.nan
    assert list(ignored_by(save(tmp_path, "a.tif", Picture.fromarray(values)))) == remarks


def test_broken_photographs_are_left_out(tmp_path):
    good = save(tmp_path, "good.jpg", Picture.fromarray(gradient()))
    (tmp_path / "half.jpg").write_bytes(good.read_bytes()[: good.stat().st_size // 2])
    (tmp_path / "empty.jpg").write_bytes(b"")
    names = ("empty.jpg", "good.jpg", "gone.jpg", "half.jpg")
    calls = []
    views, images, _, skipped, *_ = load_images([view_of(tmp_path / name) for name in names], progress=calls.append)
    assert [view.name for view in views] == ["good.jpg"]
    assert len(images) == 1
    assert [reason.split(":")[0] for reason in skipped] == ["empty.jpg", "gone.jpg", "half.jpg"]
    assert calls == [1, 1, 1, 1]


def test_random_damage(tmp_path):
    rng = np.random.default_rng(3)
    contents = []
    for kind in ("JPEG", "PNG", "TIFF"):
        buffer = io.BytesIO()
        Picture.fromarray(gradient()).save(buffer, kind)
        contents.append(np.frombuffer(buffer.getvalue(), np.uint8))
    views = []
    for i in range(120):
        damaged = contents[i % 3].copy()
        damaged[rng.integers(len(damaged), size=4)] = rng.integers(256, size=4)
        path = tmp_path / f"{i}.img"
        path.write_bytes(damaged.tobytes())
        views.append(view_of(path))
    kept, images, _, skipped, *_ = load_images(views)
    assert len(kept) + len(skipped) == len(views)
    assert all(image.shape == (30, 40, 3) for image in images)


def test_decompression_bomb(tmp_path, monkeypatch):
    good = save(tmp_path, "good.png", Picture.new("RGB", (5, 5)))
    bomb = save(tmp_path, "bomb.png", Picture.fromarray(gradient()))
    monkeypatch.setattr(Picture, "MAX_IMAGE_PIXELS", 100)
    views, _, _, skipped, *_ = load_images([view_of(bomb), view_of(good)])
    assert [view.name for view in views] == ["good.png"]
    assert "bomb" in skipped[0]


def test_nothing_decodes(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"")
    with pytest.raises(SceneError, match=r"none of the 1 photographs.*a.jpg"):
        load_images([view_of(tmp_path / "a.jpg")])
