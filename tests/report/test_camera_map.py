"""The report's map: cameras and splats from above."""

import re
import tracemalloc

import numpy as np
import pytest

from splat_cli.report.page import camera_map
from tests.gaussians.some_splats import some_splats
from tests.views import ring_of_views


@pytest.fixture
def splats():
    return some_splats(500)


def _triangles(svg):
    """Corners of the triangles [N, 3, 2], the tip first."""
    written = re.findall(r'<polygon[^>]* points="([^"]*)"', svg)
    return np.array([[list(map(float, corner.split(","))) for corner in one.split()] for one in written])


def test_cameras_of_a_ring_stand_in_a_circle_and_look_inwards(splats):
    triangles = _triangles(camera_map(splats, ring_of_views(12), frozenset()))
    assert triangles.shape == (12, 3, 2)
    places = triangles.mean(axis=1)
    center = places.mean(axis=0)
    radii = np.linalg.norm(places - center, axis=1)
    assert radii == pytest.approx(radii.mean(), rel=0.05)
    assert (np.linalg.norm(triangles[:, 0] - center, axis=1) < radii).all()


def test_map_is_not_mirrored(splats):
    """A camera that moves counter-clockwise around `up` does so in the picture."""
    views = ring_of_views(12)
    up = -np.mean([view.w2c[1, :3] for view in views], axis=0)
    centers = np.array([view.center for view in views])
    turn = np.cross(centers[0] - centers.mean(axis=0), centers[1] - centers.mean(axis=0)) @ up
    places = _triangles(camera_map(splats, views, frozenset())).mean(axis=1)
    (x0, y0), (x1, y1) = places[:2] - places.mean(axis=0)
    assert np.sign(x0 * -y1 - -y0 * x1) == np.sign(turn)


def test_held_out_views_look_different_and_names_are_escaped(splats):
    views = ring_of_views(4)
    svg = camera_map(splats, views, frozenset({views[1].name}))
    assert svg.count('class="held-out"') == 1
    assert f"{views[1].name} (held out)" in svg
    assert svg.count('class="trained"') == 3


def test_one_camera_and_no_splats(splats):
    view = ring_of_views(4)[:1]
    assert "NaN" not in camera_map(splats, view, frozenset())
    assert "nan" not in camera_map(splats.select(np.zeros(0, int)), view, frozenset())


def test_memory_grows_with_the_number_of_cameras_not_with_its_square(splats):
    """A matrix of 4,000 x 4,000 would be 122 MiB."""
    views = ring_of_views(4000)
    tracemalloc.start()
    camera_map(splats, views, frozenset())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**25


def test_cameras_of_the_scene_in_3d_are_links(splats):
    views = ring_of_views(4)
    svg = camera_map(splats, views, frozenset(), {views[1].name: 7})
    assert svg.count("<a ") == 1
    assert '<a href="#stage" data-view="7"><polygon class="trained"' in svg
    assert f"<title>{views[1].name}</title></polygon></a>" in svg
