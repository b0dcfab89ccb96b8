"""Depth maps: files, places where they are found, units, alignment with the view."""

import json
import struct
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image as Picture

from splat_cli.errors import SceneError
from splat_cli.scene import SceneOptions, make_sample_scene, read_scene
from splat_cli.scene.depth_maps import DepthMap, DepthMaps, load_depth_maps
from splat_cli.scene.depth_maps.align import aligned
from splat_cli.scene.depth_maps.files import read_confidence, read_depths
from splat_cli.scene.depth_maps.load import shrink_factor
from splat_cli.scene.lens import Lens
from splat_cli.scene.lens.distortion import Polynomial
from splat_cli.scene.view import DepthFile
from tests.peak_memory import peak_memory
from tests.scene.depth_files import write_exr, write_map
from tests.scene.export_files import write_polycam, write_record3d, write_scanner_app
from tests.scene.transforms_files import frame_entry, write_transforms
from tests.small_scene import write_small_scene
from tests.views import ring_of_views, unplaced_view

CONFIG = SimpleNamespace(depth_maps="auto", depth_unit=0.001)
MANY = 1 << 20
"""Pixels: more than any map has here, unless a test says otherwise."""
VALUES = np.arange(1, 13, dtype=np.float32).reshape(3, 4)


NO_POINTS = np.zeros((0, 3), np.float32)


def loaded(views, points=NO_POINTS, max_bytes=1 << 30, **config):
    """Depth maps, and what was said and warned of."""
    said, warned = [], []
    config = SimpleNamespace(**{**vars(CONFIG), **config})
    return load_depth_maps(views, points, config, max_bytes, said.append, warned.append), said, warned


def inverse(depth_map):
    """1/z, NaN where there is none."""
    values = depth_map.values.astype(float)
    return np.where(values > 0, depth_map.scale * values, np.nan)


@pytest.mark.parametrize(
    ("name", "values"),
    [("a.png", VALUES.astype(np.uint16)), ("a.tif", VALUES), ("a.tiff", VALUES.astype(np.uint16)), ("a.npy", VALUES),
     ("a.npy", VALUES[None].astype(np.float64)), ("a.npy", VALUES.astype(np.int32)), ("a.exr", VALUES),
     ("a.png", np.stack([VALUES.astype(np.uint8)] * 3, axis=-1))],
)  # fmt: skip
def test_formats(tmp_path, name, values):
    write_map(tmp_path / name, values)
    np.testing.assert_array_equal(read_depths(tmp_path / name, MANY), VALUES)


@pytest.mark.parametrize("channel", ["Z", "Y", "R", "other"])
def test_channels_of_exr(tmp_path, channel):
    write_exr(tmp_path / "a.exr", VALUES, channel)
    np.testing.assert_array_equal(read_depths(tmp_path / "a.exr", MANY), VALUES)


def test_what_is_no_depth_map(tmp_path):
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
    with (tmp_path / name).open("ab") as file:  # enough bytes for its pixels to be plausible
        file.write(bytes(6000 * 4500 // 200))
    with peak_memory() as memory, pytest.raises(ValueError, match="6000x4500, the photograph smaller"):
        read_depths(tmp_path / name, 4 * 30 * 40)
    assert memory.bytes < 8 << 20


def test_a_picture_in_grey_takes_few_bytes_a_pixel(tmp_path):
    side = 1448  # of less than 2^21 pixels
    Picture.new("RGB", (side, side), (9, 9, 9)).save(tmp_path / "a.png")
    with peak_memory() as memory:
        assert read_depths(tmp_path / "a.png", side * side).shape == (side, side)
    assert memory.bytes < 12 * side * side


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
    with peak_memory() as memory:
        np.testing.assert_array_equal(read_depths(path, MANY), zeros if kind == "channels" else VALUES)
    assert memory.bytes < 50 << 20


@pytest.mark.parametrize("damage", [
    lambda content: content[:100], lambda content: content[:5_000],
    lambda content: content.replace(b"lineOrder", b"\xffineOrder"),
])  # fmt: skip
def test_a_damaged_exr_is_refused_and_prints_no_result(tmp_path, capfd, damage):
    write_map(tmp_path / "a.exr", np.random.default_rng(0).random((90, 120)).astype(np.float32))
    (tmp_path / "a.exr").write_bytes(damage((tmp_path / "a.exr").read_bytes()))
    with pytest.raises(ValueError, match="is not a readable OpenEXR file"):
        read_depths(tmp_path / "a.exr", MANY)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(("levels", "expected"), [([0, 1, 2], [0, 0.5, 1]), ([0, 54, 255], [0, 54 / 255, 1])])
def test_confidences_of_arkit_and_polycam(tmp_path, levels, expected):
    write_map(tmp_path / "a.png", np.array([levels], np.uint8))
    np.testing.assert_allclose(read_confidence(tmp_path / "a.png", MANY), [expected], rtol=1e-6)


def test_invalid_and_doubtful_pixels(tmp_path):
    depths = np.array([[2.0, 0.0, np.nan], [np.inf, -1.0, 4.0]])
    found = DepthMap.of(1 / np.where(depths > 0, depths, np.nan))
    np.testing.assert_allclose(inverse(found), [[0.5, np.nan, np.nan], [np.nan, np.nan, 0.25]], rtol=1e-3)
    assert found.weights is None
    found = DepthMap.of(np.full((1, 3), 0.5), np.array([[0.0, 0.5, 1.0]]))
    np.testing.assert_array_equal(found.values > 0, [[False, True, True]])
    assert found.weights.tolist() == [[0, 128, 255]]
    assert DepthMap.of(np.zeros((2, 2))) is None
    assert DepthMaps([found, None]).num_bytes == 3 * 2 + 3


def test_numbers_beyond_float32_are_left_out(tmp_path):
    for name, values in (("a.npy", np.full((30, 40), 1e300)), ("b.npy", np.full((30, 40), 1e-45, np.float32))):
        np.save(tmp_path / name, np.where(np.eye(30, 40) > 0, 2.0, values))
        view = replace(ring_of_views(1)[0], depth=DepthFile(tmp_path / name))
        found = inverse(loaded([view])[0].maps[0])
        assert np.isfinite(found).sum() == 30
        np.testing.assert_allclose(found[np.isfinite(found)], 0.5, rtol=1e-3)


def test_depths_are_found_beside_photographs(tmp_path):
    scene = write_small_scene(tmp_path, num_views=5)
    levels = np.full((30, 40), 2500, np.uint16)
    write_map(tmp_path / "depths" / "a_00.png", levels)
    write_map(tmp_path / "depths" / "a_01.jpg.png", levels)
    write_map(tmp_path / "depths" / "a_02.npy", levels / np.float32(1000))
    write_map(tmp_path / "confidence" / "a_02.png", np.full((15, 20), 1, np.uint8))
    views = read_scene(scene).views
    assert [view.depth is not None for view in views] == [True, True, True, False, False]
    maps, said, warned = loaded(views)
    assert warned == []
    assert said == ["Depth maps: 3, depths in world units"]
    assert maps.maps[3] is None
    for number in range(3):
        np.testing.assert_allclose(inverse(maps.maps[number]), 0.4, rtol=1e-3)
    assert maps.maps[0].weights is None
    assert (maps.maps[2].weights == 128).all()
    assert not any(view.depth for view in read_scene(scene, SceneOptions(depths="none")).views)
    elsewhere = (tmp_path / "depths").rename(tmp_path / "other")
    assert not any(view.depth for view in read_scene(scene).views)
    for folder in ("other", elsewhere):
        assert sum(view.depth is not None for view in read_scene(scene, SceneOptions(depths=folder)).views) == 3
    with pytest.raises(SceneError, match="there is no folder gone; name the folder of the depth maps with --depths"):
        read_scene(scene, SceneOptions(depths="gone"))


def test_unit_of_integers(tmp_path):
    write_map(tmp_path / "a.png", np.full((30, 40), 500, np.uint16))
    view = replace(ring_of_views(1)[0], depth=DepthFile(tmp_path / "a.png"))
    np.testing.assert_allclose(inverse(loaded([view], depth_unit=0.01)[0].maps[0]), 0.2, rtol=1e-3)
    named = replace(view, depth=DepthFile(tmp_path / "a.png", unit=0.1, is_metric=True))
    np.testing.assert_allclose(inverse(loaded([named], depth_unit=0.01)[0].maps[0]), 0.02, rtol=1e-3)


@pytest.mark.parametrize(
    "keys", [("depth_file_path", "depth_unit_scale_factor"), ("depth_path", "integer_depth_scale")]
)
def test_transforms(tmp_path, keys):
    views = ring_of_views(2)
    frames = [frame_entry(view, **{keys[0]: f"d/{view.name}.png"}) for view in views]
    write_transforms(tmp_path, views, frames, **{keys[1]: 0.01})
    write_map(tmp_path / "d" / f"{views[0].name}.png", np.full((30, 40), 300, np.uint16))
    first, second = read_scene(tmp_path).views
    assert second.depth is None
    assert first.depth == DepthFile(tmp_path / "d" / f"{views[0].name}.png", None, 0.01, is_metric=True)


def test_phones(tmp_path):
    views = ring_of_views(2)
    levels, confidence = np.full((15, 20), 2000, np.uint16), np.full((15, 20), 2, np.uint8)
    write_polycam(tmp_path / "p", views)
    write_map(tmp_path / "p" / "keyframes" / "depth" / "a_00.png", levels)
    write_map(tmp_path / "p" / "keyframes" / "confidence" / "a_00.png", confidence)
    write_scanner_app(tmp_path / "s", views)
    write_map(tmp_path / "s" / "depth_00000.png", levels)
    write_map(tmp_path / "s" / "conf_00000.png", confidence)
    write_record3d(tmp_path / "r", views)
    write_map(tmp_path / "r" / "depth" / "0.exr", levels / np.float32(1000))
    for folder, has_confidence in (("p", True), ("s", True), ("r", False)):
        first, second = read_scene(tmp_path / folder).views
        assert second.depth is None
        assert first.depth.is_metric
        assert (first.depth.confidence is not None) == has_confidence
        np.testing.assert_allclose(inverse(loaded([first])[0].maps[0]), 0.5, rtol=1e-3)


def test_scales_of_inria(tmp_path):
    """Inverse depths of 16 bits; a scale far from the others' is no good fit."""
    scene = write_small_scene(tmp_path, num_views=4)
    for number in range(4):
        write_map(tmp_path / "depths" / f"a_0{number}.png", np.full((30, 40), 32768, np.uint16))
    scales = {
        "a_00": {"scale": 0.6, "offset": 0.1},
        "a_01": {"scale": 0.5, "offset": 0.0},
        "a_02": {"scale": 9, "offset": 0},
    }
    (tmp_path / "sparse" / "0" / "depth_params.json").write_text(json.dumps(scales))
    views = read_scene(scene).views
    assert [view.depth is not None for view in views] == [True, True, False, False]
    maps, said, _ = loaded(views)
    assert said == ["Depth maps: 2, inverse depths with the scales of depth_params.json"]
    np.testing.assert_allclose(inverse(maps.maps[0]), 0.4, rtol=1e-3)
    np.testing.assert_allclose(inverse(maps.maps[1]), 0.25, rtol=1e-3)
    for broken in ("[]", '{"a_00": {"scale": 1}}', "{", '{"a_00": {"scale": 1e999, "offset": 0}}'):
        (tmp_path / "sparse" / "0" / "depth_params.json").write_text(broken)
        with pytest.raises(SceneError, match="depth_params.json is no table of"):
            read_scene(scene)


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """The sample scene with exact depth maps."""
    return make_sample_scene(tmp_path_factory.mktemp("sample"), num_views=4, width=64, height=48, depths=True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda z: z, "depths in world units"),
        (lambda z: 3 * z + 0.5, "depths up to scale and shift"),
        (lambda z: 40 / z + 7, "inverse depths up to scale and shift"),
    ],
    ids=["metric", "relative", "inverse"],
)
def test_units_follow_the_points(sample, tmp_path, change, said):
    scene = read_scene(sample)
    views, depths = [], []
    for view in scene.views:
        depths.append(read_depths(view.depth.path, MANY) / 1000)
        np.save(tmp_path / f"{view.name}.npy", change(depths[-1]))
        views.append(replace(view, depth=DepthFile(tmp_path / f"{view.name}.npy")))
    maps, lines, warned = loaded(views, scene.points)
    assert warned == []
    assert lines[0].startswith(f"Depth maps: 4, {said}, ")
    assert float(lines[0].split(", ")[2].split("%")[0]) < 2
    for depth_map, z in zip(maps.maps, depths, strict=True):  # relative ones are fitted to the points of each view
        assert not depth_map.relative
        np.testing.assert_allclose(depth_map.scale * depth_map.values.astype(float), 1 / z, rtol=0.03)


def test_relative_maps_of_views_without_points_are_fitted_in_training(sample):
    views = read_scene(sample).views
    maps, said, _ = loaded(views, depth_maps="relative")
    assert said == ["Depth maps: 4, inverse depths up to scale and shift, 4 of them fitted to the splats in training"]
    assert all(depth_map.relative for depth_map in maps.maps)
    assert not any(depth_map.relative for depth_map in loaded(views)[0].maps)


def test_maps_that_show_something_else_are_left_out(sample, tmp_path):
    scene = read_scene(sample)
    random = np.random.default_rng(0)
    views = []
    for view in scene.views:
        np.save(tmp_path / f"{view.name}.npy", random.uniform(1, 20, (48, 64)))
        views.append(replace(view, depth=DepthFile(tmp_path / f"{view.name}.npy")))
    maps, said, warned = loaded(views, scene.points)
    assert (maps, said) == (None, [])
    assert "differ from the scene's points by" in warned[0]
    assert loaded(views, scene.points, depth_maps="metric")[0] is not None


def test_maps_that_do_not_fit_are_listed(tmp_path):
    write_map(tmp_path / "narrow.png", np.full((30, 30), 500, np.uint16))
    write_map(tmp_path / "large.png", np.full((300, 400), 500, np.uint16))
    views = [
        replace(ring_of_views(1)[0], name=name, depth=DepthFile(tmp_path / name))
        for name in ("narrow.png", "large.png", "gone.png")
    ]
    maps, said, warned = loaded(views)
    assert (maps, said) == (None, [])
    assert warned[0].startswith("left out 3 depth maps: narrow.png: is 30x30, the photograph 40x30: another aspect")
    assert "large.png: its depth map is 400x300" in warned[0]
    assert "gone.png: the file is missing" in warned[0]


def test_a_distorted_map_is_undistorted_with_its_photograph():
    """A map of its own columns: where a ray falls in the photograph, there it is read."""
    lens = Lens(160, 120, 110.0, 110.0, 80.0, 60.0, Polynomial(radial=(-0.2, 0.05)))
    view = replace(unplaced_view(lens.pinhole.width, lens.pinhole.height), lens=lens)
    columns = np.tile(np.arange(80, dtype=np.float32), (60, 1))
    found = aligned(columns, view)
    pinhole = lens.pinhole
    height, width = found.shape
    rows, across = np.mgrid[:height, :width] + 0.5
    x = (across * pinhole.width / width - pinhole.cx) / pinhole.fx
    y = (rows * pinhole.height / height - pinhole.cy) / pinhole.fy
    seen = lens.distortion.distort(np.stack([x, y], axis=-1))[..., 0] * lens.fx + lens.cx
    assert np.nanmax(np.abs(found + 0.5 - seen / 2)) < 0.6
    assert np.isfinite(found).mean() > 0.95


def test_maps_are_no_larger_than_their_views_and_shrink_to_fit():
    values = np.arange(48.0, dtype=np.float32).reshape(6, 8)
    view = unplaced_view(4, 3)
    assert aligned(values, view).tolist() == [[9, 11, 13, 15], [25, 27, 29, 31], [41, 43, 45, 47]]
    assert aligned(values, unplaced_view(16, 12)).shape == (6, 8)
    with_map = replace(unplaced_view(40, 30), depth=DepthFile("a.png"))
    assert shrink_factor([with_map, view], 3600) == 1
    assert shrink_factor([with_map, view], 3599) == 2
    assert aligned(values, view, shrink=2).shape == (1, 2)
