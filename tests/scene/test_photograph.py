"""Measures of photographs without poses."""

import os
import sys

import numpy as np
import pytest
from PIL import Image, ImageFilter

from splat_cli.errors import SplatError
from splat_cli.scene import photograph
from splat_cli.scene.photograph import find_pairs, measure, sharpness
from tests.subprocesses import environment, finished
from tests.wide_picture import crops, wide_picture

TERMINATED = """
import os, signal
import numpy as np
from splat_cli.scene.photograph import Features, Photograph, find_pairs
signal.signal(signal.SIGTERM, lambda number, frame: print("saved"))
shapes = (20, 2), (20, 128), (20,), (16, 16)
places, descriptors, light, thumbnail = (np.ones(shape, np.float32) for shape in shapes)
one = Photograph(None, 8, 8, 0.3, thumbnail, Features(8, 8, places, descriptors, light))
assert len(find_pairs([one, one])) == 1
os.kill(os.getpid(), signal.SIGTERM)
"""


def sharpness_of(picture):
    return sharpness(np.asarray(picture.convert("L"), np.float32))


def moved_during_exposure(picture, right, down, steps=8):
    """A photograph of a camera that moved by `steps` times (right, down) pixels."""
    pixels = np.asarray(picture, np.float32)
    mean = np.mean([np.roll(pixels, (i * down, i * right), (0, 1)) for i in range(steps)], axis=0)
    return Image.fromarray(mean.astype(np.uint8))


@pytest.mark.parametrize("way", [(1, 0), (0, 1), (1, 1), (1, -1)])
def test_blur_in_any_direction_lowers_sharpness(way):
    picture = wide_picture(320, 240)
    assert sharpness_of(moved_during_exposure(picture, *way)) < 0.45 * sharpness_of(picture)


def test_sharpness_ignores_contrast_and_parts_out_of_focus():
    picture = wide_picture(320, 240)
    sharp = sharpness_of(picture)
    assert sharpness_of(picture.point(lambda value: 80 + value // 4)) == pytest.approx(sharp, rel=0.1)
    focused = picture.filter(ImageFilter.GaussianBlur(3))
    focused.paste(picture.crop((80, 0, 320, 240)), (80, 0))
    assert sharpness_of(focused) > 0.8 * sharp
    assert sharpness_of(picture.filter(ImageFilter.GaussianBlur(2))) < 0.3 * sharp


def test_tiny_and_plain_pictures_have_no_sharpness():
    assert sharpness(np.zeros((8, 8), np.float32)) == 0
    assert sharpness(np.zeros((200, 200), np.float32)) <= 0


def test_files_that_cannot_be_decoded_are_left_out(tmp_path):
    wide_picture(64, 64).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"not a picture")
    counted = []
    found = measure([tmp_path / "a.png", tmp_path / "b.png"], counted.append)
    assert [one.path.name for one in found] == ["a.png"]
    assert (found[0].width, found[0].height) == (64, 64)
    assert counted == [1, 1]


def test_child_processes_measure_in_the_order_of_the_files(tmp_path, monkeypatch):
    paths = [tmp_path / f"{number}.png" for number in range(17)]
    for number, path in enumerate(paths):
        wide_picture(64, 64 + number).save(path)
    paths[3].write_bytes(b"not a picture")
    monkeypatch.setattr(photograph, "num_cores", lambda: 2)
    counted = []
    found = measure(paths, counted.append)
    assert [(one.path, one.height) for one in found] == [(paths[i], 64 + i) for i in range(17) if i != 3]
    assert counted == [1] * 17


def test_child_process_that_ends_names_the_photograph(tmp_path, monkeypatch):
    monkeypatch.setattr(photograph, "num_cores", lambda: 2)
    monkeypatch.setattr(photograph, "_PROGRAM", "import sys; sys.exit(3)")
    with pytest.raises(SplatError, match=r"0\.png failed \(exit code 3\): leave it out"):
        measure([tmp_path / f"{number}.png" for number in range(16)], lambda done: None)


def test_shared_points_exposure_and_movement_of_pairs(tmp_path):
    pytest.importorskip("pycolmap")
    paths = crops(tmp_path, 3, step=60)
    Image.open(paths[1]).point(lambda value: value // 2).save(paths[1])
    wide_picture(320, 240, seed=7).save(tmp_path / "c_other.png")
    photographs = measure([*paths, tmp_path / "c_other.png"], lambda done: None)
    pairs = {(pair.first, pair.second): pair for pair in find_pairs(photographs)}
    assert pairs[0, 1].num_shared > 100 > 3 * pairs[2, 3].num_shared
    assert pairs[0, 1].num_shared > pairs[0, 2].num_shared
    assert pairs[0, 1].stops == pytest.approx(-2.2, abs=0.3)
    assert pairs[0, 2].stops == pytest.approx(0, abs=0.1)
    assert pairs[0, 1].shift == pytest.approx(60 / 320, abs=0.01)
    assert pairs[0, 1].moved < 0.1


def test_things_that_move_do_not_agree_with_the_camera(tmp_path):
    """Two things move in different directions; one alone, before a plane, would look like depth."""
    pytest.importorskip("pycolmap")
    paths = crops(tmp_path, 2, step=10)
    things = [
        (wide_picture(110, 100, seed), places)
        for seed, places in ((5, [(10, 10), (10, 60)]), (6, [(200, 100), (130, 90)]))
    ]
    for number, path in enumerate(paths):
        picture = Image.open(path)
        for thing, places in things:
            picture.paste(thing, places[number])
        picture.save(path)
    (pair,) = find_pairs(measure(paths, lambda done: None))
    assert pair.moved > 0.1


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGTERM")
def test_pairs_leave_sigterm_to_the_program():
    """Regression: threads imported pycolmap, whose handler ended the training that followed."""
    pytest.importorskip("pycolmap")
    result = finished([sys.executable, "-c", TERMINATED], env=environment())
    assert (result.returncode, result.stdout) == (0, "saved\n"), result.stderr
