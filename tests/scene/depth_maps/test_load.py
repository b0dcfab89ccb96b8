"""Depth maps of a scene: their location, and the maps and pixels that are used."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.commands.info import summarize_scene
from splat_cli.errors import SceneError
from splat_cli.scene import SceneOptions, read_scene
from splat_cli.scene.depth_maps import DepthMap, DepthMaps
from splat_cli.scene.view import DepthFile
from tests.scene.depth_files import write_map
from tests.scene.depth_maps.loading import inverse, loaded
from tests.scene.export_files import write_polycam, write_record3d, write_scanner_app
from tests.scene.transforms_files import frame_entry, write_transforms
from tests.small_scene import write_small_scene
from tests.views import ring_of_views


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


def test_largest_levels_are_holes(tmp_path):
    """Programs write them for holes, and for all depths beyond."""
    for number, (name, kind) in enumerate((("a.png", np.uint16), ("b.png", np.uint8), ("c.npy", np.int32))):
        values = np.where(np.eye(30, 40) > 0, 50, 65535 if kind is np.int32 else np.iinfo(kind).max).astype(kind)
        write_map(tmp_path / name, values)
        view = replace(ring_of_views(1)[0], depth=DepthFile(tmp_path / name))
        found = inverse(loaded([view])[0].maps[0])
        assert np.isfinite(found).sum() == (1200 if number == 2 else 30)


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


@pytest.mark.parametrize(
    "keys", [("depth_file_path", "depth_unit_scale_factor"), ("depth_path", "integer_depth_scale")]
)
def test_transforms(tmp_path, keys):
    views = ring_of_views(2)
    frames = [frame_entry(view, **{keys[0]: f"d/{view.name}.png"}) for view in views]
    write_transforms(tmp_path, views, frames, **{keys[1]: 0.01})
    write_map(tmp_path / "d" / f"{views[0].name}.png", np.full((30, 40), 300, np.uint16))
    scene = read_scene(tmp_path)
    first, second = scene.views
    assert second.depth is None
    assert scene.missing_depths == [f"{second.name}: its depth map d/{views[1].name}.png is missing"]
    assert f"1: {second.name}" in summarize_scene(scene)["missing depth maps"]
    assert first.depth == DepthFile(tmp_path / "d" / f"{views[0].name}.png", None, 0.01, is_metric=True)
    for scale in (1, 2):  # poses are read in units before the transform, depths are in those after it
        write_transforms(tmp_path, views, frames, applied_transform=(scale * np.eye(4)[:3]).tolist())
        scene = read_scene(tmp_path)
        assert (scene.views[0].depth is None, "(not read: depth maps, whose units" in scene.found) == (scale == 2,) * 2
        write_transforms(tmp_path, views, frames, applied_scale=scale)  # depths are in units before it
        scene = read_scene(tmp_path)
        assert (scene.views[0].depth is None, "the scale of `applied_scale` changes" in scene.found) == (
            scale == 2,
        ) * 2


@pytest.fixture
def depthless(tmp_path):
    """A scene of four photographs whose transforms.json names four missing depth maps, one outside of the scene."""
    views = ring_of_views(4)
    frames = [frame_entry(view, depth_file_path=f"d/{view.name}.png") for view in views]
    frames[3]["depth_file_path"] = "../other/3.png"
    write_transforms(tmp_path / "scene", views, frames)
    return tmp_path / "scene", views


def test_missing_depth_maps_are_warned_of(splat, depthless, tmp_path):
    scene, views = depthless
    write_map(scene / "d" / f"{views[1].name}.png", np.full((30, 40), 300, np.uint16))
    command = ("train", scene, "--steps", "1", "--device", "cpu", "--no-report", "--init", "random")
    result = splat(*command, "-o", tmp_path / "a")
    assert result.code == 0
    assert (
        f"left out 3 depth maps: images/{views[0].name}: its depth map d/{views[0].name}.png is missing; " in result.err
    )
    assert f"{views[3].name}: its depth map ../other/3.png is missing" in result.err
    assert "4 photographs" in result.err
    assert "depth maps" not in splat(*command, "-o", tmp_path / "b", "--depths", "none").err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), None),
        (("--depth-weight", "0.1"), "none of the 4 depth maps of"),
        (("--depth-maps", "metric"), "none of the 4 depth maps of"),
        (("--depths", "empty"), "empty has no depth map for any of the 4 photographs: name them like these"),
    ],
)
def test_without_any_depth_map_training_ends_where_they_were_asked_for(splat, depthless, tmp_path, options, message):
    scene, _ = depthless
    (scene / "empty").mkdir()
    command = ("train", scene, "--steps", "1", "--device", "cpu", "--no-report", "--init", "random")
    result = splat(*command, "-o", tmp_path / "run", *options)
    if message is None:
        assert (result.code, "left out 4 depth maps" in result.err) == (0, True)
    else:
        assert (result.code, message in result.err) == (2, True), result.err


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
