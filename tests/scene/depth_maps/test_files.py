"""Files of depth maps and confidences: formats, damage, memory."""

import struct

import numpy as np
import pytest
from PIL import Image as Picture

from splat_cli.scene.depth_maps import read_confidence, read_depths
from tests.peak_memory import assert_little_memory
from tests.scene.depth_files import write_exr, write_map

MANY = 1 << 20
"""Limit of pixels. No map exceeds it, unless a test says so."""
VALUES = np.arange(1, 13, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("a.png", VALUES.astype(np.uint16)),
        ("a.tif", VALUES),
        ("a.tiff", VALUES.astype(np.uint16)),
        ("a.npy", VALUES),
        ("a.npy", VALUES[None].astype(np.float64)),
        ("a.npy", VALUES.astype(np.int32)),
        ("a.exr", VALUES),
        ("a.png", np.stack([VALUES.astype(np.uint8)] * 3, axis=-1)),
    ],
)
def test_formats(tmp_path, name, values):
    write_map(tmp_path / name, values)
    np.testing.assert_array_equal(read_depths(tmp_path / name, MANY), VALUES)


@pytest.mark.parametrize("channel", ["Z", "Y", "R", "other"])
def test_channels_of_exr(tmp_path, channel):
    write_exr(tmp_path / "a.exr", VALUES, channel)
    np.testing.assert_array_equal(read_depths(tmp_path / "a.exr", MANY), VALUES)


@pytest.mark.parametrize(
    ("others", "window", "reason"),
    [
        (["ViewLayer.Combined.R", "ViewLayer.Combined.G", "ViewLayer.Normal.Z"], None, None),
        (["A"], None, None),
        (["G", "B"], None, "it is a colour picture, expected depths in a channel Z"),
        (["normal.X", "normal.Y"], None, "it has 3 channels, none of depths: name one Z"),
        ([], (10, 5), "it holds a part of its picture, the data window"),
        ([], (0, 0), None),
    ],
    ids=["Blender's layers", "alpha", "colours", "no depths", "cropped", "window of another writer"],
)
def test_other_channels_and_windows_of_exr(tmp_path, others, window, reason):
    exr = pytest.importorskip("OpenEXR", reason="OpenEXR files are read with OpenEXR (extra exr)")
    named = {"ViewLayer.Combined.R": "ViewLayer.Depth.Z", "normal.X": "normal.Z"}.get(others[0] if others else "", "R")
    header = {"compression": exr.ZIP_COMPRESSION, "type": exr.scanlineimage}
    if window is not None:  # pixels 10 to 13 of 100; or all, although the header names a smaller picture
        right, bottom = window[0] + VALUES.shape[1] - 1, window[1] + VALUES.shape[0] - 1
        last = (99, 99) if any(window) else (1, 1)
        header |= {"dataWindow": (window, (right, bottom)), "displayWindow": ((0, 0), last)}
    channels = {named: VALUES, **dict.fromkeys(others, VALUES * 0.5)}
    path = tmp_path / "a.exr"
    exr.File(header, {name: np.ascontiguousarray(values, np.float32) for name, values in channels.items()}).write(
        str(path)
    )
    if reason is None:
        np.testing.assert_array_equal(read_depths(path, MANY), VALUES)
    else:
        with pytest.raises(ValueError, match=reason):
            read_depths(path, MANY)


def test_files_that_are_not_depth_maps(tmp_path):
    write_map(tmp_path / "color.png", np.random.default_rng(0).integers(0, 256, (3, 4, 3), np.uint8))
    write_map(tmp_path / "three.npy", np.zeros((3, 4, 3)))
    write_map(tmp_path / "text.npy", np.array([["a", "b"]]))
    np.save(tmp_path / "pickled.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    (tmp_path / "short.npy").write_bytes((tmp_path / "three.npy").read_bytes()[:150])
    (tmp_path / "junk.exr").write_bytes(b"junk")
    for name in ("color.png", "three.npy", "text.npy", "pickled.npy", "short.npy", "junk.exr", "missing.png"):
        with pytest.raises(ValueError, match=r"colour|holds|array of NumPy|missing|OpenEXR"):
            read_depths(tmp_path / name, MANY)


def test_an_array_that_is_larger_than_its_file_takes_no_memory(tmp_path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000), }".ljust(117) + b"\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    with pytest.raises(ValueError, match="mmap"):
        read_depths(tmp_path / "a.npy", MANY)


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_a_picture_with_far_more_pixels_than_the_photograph_takes_no_memory(tmp_path, name):
    Picture.new("RGB", (6000, 4500), (9, 9, 9)).save(tmp_path / name)
    with (tmp_path / name).open("ab") as file:  # plausible for its number of pixels
        file.write(bytes(6000 * 4500 // 200))

    def refused():
        with pytest.raises(ValueError, match="6000x4500, the photograph smaller"):
            read_depths(tmp_path / name, 4 * 30 * 40)

    assert_little_memory(refused, 8 << 20)


def test_grey_picture_takes_few_bytes_per_pixel(tmp_path):
    side = 1448  # fewer than 2^21 pixels
    Picture.new("RGB", (side, side), (9, 9, 9)).save(tmp_path / "a.png")
    depths = assert_little_memory(lambda: read_depths(tmp_path / "a.png", side * side), 12 * side * side)
    assert depths.shape == (side, side)


@pytest.mark.parametrize("kind", ["channels", "parts"])
def test_other_contents_of_exr_take_no_memory(tmp_path, kind):
    exr = pytest.importorskip("OpenEXR", reason="OpenEXR files are read with OpenEXR (extra exr)")
    header = {"compression": exr.ZIP_COMPRESSION, "type": exr.scanlineimage, "displayWindow": ((0, 0), (3, 2))}
    path, zeros = tmp_path / "a.exr", np.zeros((1000, 1000), np.float16)
    if kind == "channels":
        exr.File(header, {"Z": zeros, **{f"c{i}": zeros for i in range(50)}}).write(str(path))
    else:
        parts = [exr.Part(dict(header), {"Z": VALUES}, "depth")]
        parts += [exr.Part(dict(header), {"Z": zeros}, f"other{i}") for i in range(50)]
        exr.File(parts).write(str(path))
    depths = assert_little_memory(lambda: read_depths(path, MANY), 50 << 20)
    np.testing.assert_array_equal(depths, zeros if kind == "channels" else VALUES)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:100],
        lambda content: content[:5_000],
        lambda content: content.replace(b"lineOrder", b"\xffineOrder"),
    ],
)
def test_a_damaged_exr_is_refused_and_prints_no_result(tmp_path, capfd, damage):
    write_map(tmp_path / "a.exr", np.random.default_rng(0).random((90, 120)).astype(np.float32))
    (tmp_path / "a.exr").write_bytes(damage((tmp_path / "a.exr").read_bytes()))
    with pytest.raises(ValueError, match="is not a readable OpenEXR file"):
        read_depths(tmp_path / "a.exr", MANY)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("name", "levels", "expected"),
    [
        ("arkit.png", np.uint8([0, 1, 2]), [0, 0.5, 1]),
        ("polycam.png", np.uint8([0, 54, 255]), [0, 54 / 255, 1]),
        ("deep.png", np.uint16([0, 32768, 65535]), [0, 32768 / 65535, 1]),
        ("network.npy", np.float32([0, 0.25, 1]), [0, 0.25, 1]),
        ("holes.npy", np.float32([np.nan, 1, 2]), [np.nan, 0.5, 1]),
    ],
)
def test_confidences(tmp_path, name, levels, expected):
    write_map(tmp_path / name, levels[None])
    np.testing.assert_allclose(read_confidence(tmp_path / name, MANY), [expected], rtol=1e-6)
