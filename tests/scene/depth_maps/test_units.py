"""Units of depth maps (metric, up to scale and shift, inverse), from the scene's points or from the files."""

import json
from dataclasses import replace

import numpy as np
import pytest

from splat_cli.errors import SceneError
from splat_cli.sample import make_sample_scene
from splat_cli.scene import read_scene
from splat_cli.scene.depth_maps import read_depths
from splat_cli.scene.view import DepthFile
from tests.scene.depth_files import write_map
from tests.scene.depth_maps.loading import inverse, loaded
from tests.small_scene import write_small_scene
from tests.views import ring_of_views


def test_unit_of_integers(tmp_path):
    write_map(tmp_path / "a.png", np.full((30, 40), 500, np.uint16))
    view = replace(ring_of_views(1)[0], depth=DepthFile(tmp_path / "a.png"))
    np.testing.assert_allclose(inverse(loaded([view], depth_unit=0.01)[0].maps[0]), 0.2, rtol=1e-3)
    named = replace(view, depth=DepthFile(tmp_path / "a.png", unit=0.1, is_metric=True))
    np.testing.assert_allclose(inverse(loaded([named], depth_unit=0.01)[0].maps[0]), 0.02, rtol=1e-3)


def test_scales_of_inria(tmp_path):
    """Inverse depths of 16 bits; maps with a scale far from the others' are left out."""
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
        with pytest.raises(SceneError, match="depth_params.json is not a table of"):
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
        depths.append(read_depths(view.depth.path, 1 << 20) / 1000)
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
    rng = np.random.default_rng(0)
    views = []
    for view in scene.views:
        np.save(tmp_path / f"{view.name}.npy", rng.uniform(1, 20, (48, 64)))
        views.append(replace(view, depth=DepthFile(tmp_path / f"{view.name}.npy")))
    maps, said, warned = loaded(views, scene.points)
    assert (maps, said) == (None, [])
    assert "differ from the scene's points by" in warned[0]
    assert loaded(views, scene.points, depth_maps="metric")[0] is not None
