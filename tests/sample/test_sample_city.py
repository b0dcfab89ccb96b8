"""The sample city: of any size, readable, evenly photographed."""

import numpy as np
import pytest

from splat_cli.errors import SceneError
from splat_cli.sample import make_sample_city
from splat_cli.sample.city import PITCH, CityMap
from splat_cli.scene import load_images, read_scene


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    return make_sample_city(tmp_path_factory.mktemp("city"), blocks=(2, 1), num_views=8, width=48, height=36)


def test_it_reads_as_a_scene(city):
    scene = read_scene(city)
    assert (len(scene.views), scene.skipped) == (8, [])
    assert len(scene.points) == 1500 * 3 * 2
    for image in load_images(scene.views).images:
        assert np.ptp(image, axis=(0, 1)).min() > 60


def test_its_ground_is_level_and_lies_under_the_drone(city):
    scene = read_scene(city)
    heights = -scene.points[:, 1]  # y points down
    assert np.percentile(heights, 3) > -1
    assert (np.abs(heights) < 0.5).mean() > 0.4
    assert all(20 < -view.center[1] < 27 for view in scene.views)


def test_more_blocks_are_a_wider_city_of_more_buildings():
    small, large = (CityMap(columns, 3, np.random.default_rng(0)) for columns in (1, 5))
    np.testing.assert_allclose(np.ptp(large.bounds, axis=0)[:2], [5 * PITCH, 3 * PITCH])
    assert len(large.shapes) > 3 * len(small.shapes)
    assert len(large.shapes) > 127  # more than int8 indices


def test_shapes_out_of_view_change_nothing():
    city = CityMap(2, 2, np.random.default_rng(1))
    pose = city.camera_poses(5, np.random.default_rng(2))[4]
    rays = pose[:3, :3].T @ np.array([[-0.5, 0, 0.5, 0.5, -0.5], [-0.4, 0, 0.4, -0.4, 0.4], [1, 1, 1, 1, 1]])
    rays = (rays / np.linalg.norm(rays, axis=0)).astype(np.float32)
    center = (-pose[:3, :3].T @ pose[:3, 3:]).astype(np.float32)
    seen = city._near(center, rays)
    assert 1 < len(seen) < len(city.shapes)
    found = city.trace(center, rays)
    city._near = lambda origin, directions: city.shapes
    np.testing.assert_array_equal(found, city.trace(center, rays))


def test_no_blocks(tmp_path):
    with pytest.raises(SceneError, match="at least 1"):
        make_sample_city(tmp_path, blocks=(0, 2))
