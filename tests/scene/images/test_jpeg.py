"""JPEG files: the same bits as Pillow's decoder, also at a fraction of the size."""

import dataclasses
import io

import numpy as np
import pytest
from PIL import Image as Picture

from splat_cli.eval.metrics import psnr
from splat_cli.scene import load_images
from splat_cli.scene.colmap.model import Camera, lens_of
from splat_cli.scene.images.decode import decode_jpeg, reduction
from splat_cli.scene.lens import undistort
from tests.scene.images.photographs import gradient, loaded, view_of


@pytest.mark.parametrize("factor", [1, 2, 4, 8])
@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize(
    "options",
    [
        {"subsampling": 0},
        {"subsampling": 1},
        {"subsampling": 2},
        {"progressive": True},
        {"restart_marker_blocks": 3},
        {"quality": 5},
        {"quality": 100},
    ],
    ids=str,
)
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
    """Octaves of noise, as in natural images."""
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
