"""Photographs decode to uint8 RGB of the view's size; broken ones are left out with a reason."""

import dataclasses
import io
import os

import numpy as np
import pytest
from PIL import Image as Picture

from splat_cli.errors import SceneError
from splat_cli.eval.metrics import psnr
from splat_cli.scene import View, load_images
from splat_cli.scene.colmap.model import Camera
from splat_cli.scene.images.decode import image_size
from splat_cli.scene.images.jpeg import decode_jpeg, reduction
from splat_cli.scene.lens import lens_of, undistort
from tests.peak_memory import peak_memory
from tests.test_image_files import EPS


def view_of(path, width=40, height=30):
    return View(path.name, path, width, height, 35.0, 35.0, width / 2, height / 2, np.eye(4))


def gradient(width=40, height=30):
    row, column = np.mgrid[:height, :width]
    return np.stack([column * 5, row * 7, 100 + 0 * row], axis=-1).astype(np.uint8)


def save(tmp_path, name, picture, **options):
    picture.save(tmp_path / name, **options)
    return tmp_path / name


def loaded(path, **size):
    found = load_images([view_of(path, **size)])
    assert found.skipped == []
    (image,) = found.images
    return image


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
    np.testing.assert_array_equal(loaded(save(tmp_path, "i.tif", Picture.fromarray(grey.astype(np.int32) * 257))),
                                  np.stack([grey] * 3, axis=-1))  # fmt: skip
    assert loaded(save(tmp_path, "one.png", color.convert("1"))).shape == (30, 40, 3)
    np.testing.assert_array_equal(loaded(save(tmp_path, "rgba.png", color.convert("RGBA"))), gradient())
    palette = loaded(save(tmp_path, "p.png", color.quantize(64)))
    assert np.abs(palette.astype(int) - gradient()).mean() < 12
    wide_color = Picture.fromarray(gradient()).convert("RGB")
    np.testing.assert_array_equal(loaded(save(tmp_path, "lossless.webp", wide_color, lossless=True)), gradient())
    np.testing.assert_array_equal(loaded(save(tmp_path, "a.tiff", wide_color, compression="tiff_lzw")), gradient())
    np.testing.assert_array_equal(loaded(save(tmp_path, "la.png", color.convert("L").convert("LA"))),
                                  np.stack([grey] * 3, axis=-1))  # fmt: skip
    cmyk = loaded(save(tmp_path, "cmyk.jpg", color.convert("CMYK"), quality=95, subsampling=0))
    assert np.abs(cmyk.astype(int) - gradient()).mean() < 4


def test_floats_go_from_black_to_white(tmp_path):
    levels = np.linspace(-0.5, 1.5, 30 * 40, dtype=np.float32).reshape(30, 40)
    expected = np.rint(255 * np.clip(levels, 0, 1))
    np.testing.assert_array_equal(loaded(save(tmp_path, "f.tif", Picture.fromarray(levels))),
                                  np.stack([expected] * 3, axis=-1))  # fmt: skip


@pytest.mark.parametrize(("scale", "offset"), [(1, 0), (257, 0), (1 << 23, 99)])
def test_integers_of_32_bits_go_to_white_by_what_they_hold(tmp_path, scale, offset):
    grey = np.linspace(0, 255, 30 * 40).astype(np.int32).reshape(30, 40)
    pixels = loaded(
        save(tmp_path, "i.tif", Picture.fromarray((grey.astype(np.int64) * scale + offset).astype(np.int32)))
    )
    np.testing.assert_array_equal(pixels, np.stack([grey] * 3, axis=-1))


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_photograph_that_unpacks_to_far_more_than_its_bytes(tmp_path, kind):
    good = save(tmp_path, "good.png", Picture.fromarray(gradient()))
    bomb = save(tmp_path, "bomb", Picture.new("L" if kind != "WEBP" else "RGB", (8000, 6000)), format=kind)
    with peak_memory() as memory:
        found = load_images([view_of(bomb, 8000, 6000), view_of(good)])
    assert len(found.skipped) == 1
    assert "as no photograph has" in found.skipped[0]
    assert memory.bytes < 64 << 20


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_regular_file_is_left_out(tmp_path, kind):
    """A pipe would never be read, a device never end."""
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


def test_exif_rotation_is_ignored(tmp_path):
    picture = Picture.fromarray(gradient())
    exif = picture.getexif()
    exif[0x0112] = 6
    assert loaded(save(tmp_path, "a.jpg", picture, exif=exif)).shape == (30, 40, 3)


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


def test_transparent_palette(tmp_path):
    picture = Picture.fromarray(gradient()).quantize(64)
    (image,) = load_images([view_of(save(tmp_path, "p.png", picture, transparency=bytes([0] * 64)))],
                           background=(9, 8, 7)).images  # fmt: skip
    np.testing.assert_array_equal(image, np.broadcast_to((9, 8, 7), (30, 40, 3)))


def test_transparent_pixels_need_a_background_of_one_colour(tmp_path):
    good = save(tmp_path, "good.png", Picture.fromarray(gradient()))
    found = load_images([view_of(transparent(tmp_path)), view_of(good)], background=None)
    assert [view.name for view in found.views] == ["good.png"]
    assert "--background black or white" in found.skipped[0]


def masked(tmp_path, mask, **size):
    photo = save(tmp_path, "a.png", Picture.fromarray(gradient()))
    path = save(tmp_path, "mask.png", mask)
    return dataclasses.replace(view_of(photo, **size), mask=path)


def half_black(width=40, height=30):
    values = np.full((height, width), 255, np.uint8)
    values[:, : width // 2] = 0
    return Picture.fromarray(values)


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("kind", ["L", "1", "RGB", "P", "16 bits", "twice the size"])
def test_mask(tmp_path, kind, inverted):
    mask = half_black(80, 60) if kind == "twice the size" else half_black()
    if kind == "16 bits":
        mask = Picture.fromarray(np.asarray(mask).astype(np.uint16) * 257)
    elif kind != "twice the size":
        mask = mask.convert(kind)
    (values,) = load_images([masked(tmp_path, mask)], invert_masks=inverted).masks
    assert values.dtype == np.uint8
    np.testing.assert_array_equal(values, 255 - np.asarray(half_black()) if inverted else np.asarray(half_black()))


def test_smaller_pixel_counts_where_all_it_is_made_of_does(tmp_path):
    values = np.full((30, 40), 255, np.uint8)
    values[:, :21] = 0
    (mask,) = load_images([masked(tmp_path, Picture.fromarray(values), width=20, height=15)]).masks
    np.testing.assert_array_equal(mask[7], [0] * 11 + [255] * 9)


def test_mask_that_leaves_all_is_none(tmp_path):
    assert load_images([masked(tmp_path, Picture.new("L", (40, 30), 255))]).masks == [None]


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (Picture.new("L", (40, 30), 0), "leaves no pixel"),
        (Picture.new("L", (30, 40), 255), "is 30x40, the photograph 40x30"),
        (Picture.new("L", (400, 300), 255), "is 400x300"),
    ],
)
def test_mask_that_cannot_be_used(tmp_path, mask, reason):
    good = view_of(save(tmp_path, "good.png", Picture.fromarray(gradient())))
    found = load_images([masked(tmp_path, mask), good])
    assert [view.name for view in found.views] == ["good.png"]
    assert reason in found.skipped[0]


@pytest.mark.parametrize("factor", [1, 2, 4, 8])
@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("options", [
    {"subsampling": 0}, {"subsampling": 1}, {"subsampling": 2}, {"progressive": True}, {"restart_marker_blocks": 3},
    {"quality": 5}, {"quality": 100},
], ids=str)  # fmt: skip
def test_jpeg_has_the_same_bits_as_pillows(mode, options, factor):
    file = io.BytesIO()
    noise = np.random.default_rng(0).integers(-30, 30, (75, 133, 3))
    pixels = np.clip(np.kron(gradient(19, 11), np.ones((7, 7, 1)))[:75, :133] + noise, 0, 255).astype(np.uint8)
    Picture.fromarray(pixels).convert(mode).save(file, "JPEG", **options)
    image = Picture.open(file)
    image.draft(None, (133 // factor, 75 // factor))
    np.testing.assert_array_equal(decode_jpeg(file.getvalue(), factor), np.array(image.convert("RGB")))


def test_other_files_are_left_to_pillow():
    def written(mode="RGB", kind="JPEG"):
        file = io.BytesIO()
        Picture.fromarray(gradient()).convert(mode).save(file, kind)
        return file.getvalue()

    assert decode_jpeg(written()) is not None
    assert decode_jpeg(written(mode="CMYK")) is None
    assert decode_jpeg(written(kind="PNG")) is None
    assert decode_jpeg(written()[:-20]) is None
    assert decode_jpeg(b"\xff\xd8\xff") is None


def test_reduction_leaves_the_filter_twice_the_pixels():
    factors = {k: reduction((4000, 3000), (4000 // k, 3000 // k)) for k in (1, 2, 3, 4, 7, 8, 16, 40)}
    assert factors == {1: 1, 2: 1, 3: 1, 4: 2, 7: 2, 8: 4, 16: 8, 40: 8}
    assert reduction((4000, 3000), (1001, 750)) == 1


def smooth_photo(path, width=400, height=300):
    """Octaves of noise, as natural images have them."""
    rng, total = np.random.default_rng(0), np.zeros((height, width, 3))
    for octave in range(2, 8):
        noise = rng.integers(0, 255, (3 * 2**octave // 4, 2**octave, 3)).astype(np.uint8)
        resized = Picture.fromarray(noise).resize((width, height), Picture.Resampling.BICUBIC)
        total += (np.asarray(resized) - 127.5) * 2.0 ** (1.5 - octave / 2)
    Picture.fromarray(np.clip(total / 2 + 127.5, 0, 255).astype(np.uint8)).save(path, quality=92)
    return path


@pytest.mark.parametrize("factor", [4, 8])
def test_a_small_picture_of_a_jpeg_is_that_of_all_its_pixels(tmp_path, factor):
    path, size = smooth_photo(tmp_path / "a.jpg"), (400 // factor, 300 // factor)
    filtered = np.asarray(Picture.open(path).resize(size, Picture.Resampling.LANCZOS))
    assert psnr(loaded(path, width=size[0], height=size[1]), filtered) > 45


@pytest.mark.parametrize("factor", [4, 8])
def test_a_small_picture_through_a_lens_is_that_of_all_its_pixels(backend, tmp_path, factor):
    path = smooth_photo(tmp_path / "a.jpg")
    lens = lens_of(Camera(1, "SIMPLE_RADIAL", 400, 300, (350.0, 200.0, 150.0, -0.1)))
    camera = lens.pinhole.resized(lens.pinhole.width // factor, lens.pinhole.height // factor)
    view = dataclasses.replace(view_of(path, camera.width, camera.height), lens=lens)
    (found,) = load_images([view], backend=backend).images
    whole, _ = undistort(backend, lens, np.asarray(Picture.open(path)))
    filtered = np.asarray(Picture.fromarray(whole).resize((camera.width, camera.height), Picture.Resampling.LANCZOS))
    assert psnr(found, filtered) > 42
