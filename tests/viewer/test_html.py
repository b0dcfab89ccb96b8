"""The exported page: self-contained, with the splats, opened at the requested camera."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from splat_cli.errors import UsageError
from splat_cli.gaussians.editing.edits import Edits, in_morton_order
from splat_cli.gaussians.editing.move import rotated, rotation_about_axes
from splat_cli.gaussians.formats import read_splats, write_splats
from splat_cli.scene.trajectories.focus import UP, overview, up_direction
from splat_cli.viewer.html import Stop, pivot_point, splats_in_3d, upright_rotation, write_html
from splat_cli.viewer.initial_camera import InitialCamera
from tests.gaussians.some_splats import some_splats
from tests.viewer.page import Page
from tests.views import ring_of_views


@pytest.fixture
def splats():
    arrays = some_splats(300)
    arrays.means *= 0.2
    return arrays


def rolled(view, degrees):
    """The view rotated about its optical axis."""
    turn = np.eye(4)
    turn[:3, :3] = rotation_about_axes((0, 0, degrees))
    return dataclasses.replace(view, w2c=turn @ view.w2c)


def pixels(splats, view):
    """Projected means [N, 2], px, relative to the principal point."""
    points = splats.means @ view.w2c[:3, :3].T + view.w2c[:3, 3]
    return points[:, :2] / points[:, 2:] * [view.fx, view.fy]


def scene_of(part):
    """Cameras and settings of a part of a page."""
    return json.loads(part.html.partition('id="scene">')[2].partition("</script>")[0])


def pixels_in_the_page(splats, camera, view):
    """`pixels` in the page: its world is the file rotated by 180 degrees about z, its camera has y up."""
    position, target = np.array(camera["position"]), np.array(camera["target"])
    forward = (target - position) / np.linalg.norm(target - position)
    right = np.cross(forward, [0, 1, 0])
    right /= np.linalg.norm(right)
    points = splats.means * [-1, -1, 1] - position
    across, down, depth = points @ right, -points @ np.cross(right, forward), points @ forward
    focal = [view.width / camera["width"] / 2, view.height / camera["height"] / 2]
    return np.stack([across, down], axis=1) / depth[:, None] * focal


def test_page_loads_nothing_else(splats, tmp_path):
    write_html(tmp_path / "a.html", splats, [Stop(ring_of_views()[0])], UP, title="a <b>")
    page = Page(tmp_path / "a.html")
    assert page.addresses == []
    assert page.policy.startswith("default-src 'none'")
    assert "http" not in page.policy
    assert "<title>a &lt;b&gt;</title>" in page.text
    assert page.text.count("Permission is hereby granted") == 2  # viewer and engine


def test_page_contains_the_splats(splats, tmp_path):
    """The splats are not rotated: the camera is upright and looks along z. Precision as in SOG."""
    write_html(tmp_path / "a.html", splats, [Stop(overview(splats.means))], UP)
    found = Page(tmp_path / "a.html").splats(tmp_path)
    write_splats(tmp_path / "expected.sog", splats)
    expected = read_splats(tmp_path / "expected.sog")
    for name, array in found.arrays().items():
        np.testing.assert_allclose(array, getattr(expected, name), atol=1e-6, err_msg=name)


@pytest.mark.parametrize("roll", [0, 10])
@pytest.mark.parametrize("number", [0, 5])
def test_page_opens_at_the_view(splats, tmp_path, number, roll):
    edits = Edits(scale=2.0, rotate=(10.0, 20.0, 130.0), translate=(1.0, -2.0, 3.0))
    views = [edits.similarity().apply(view) for view in ring_of_views()]
    start = rolled(views[number], roll)
    moved = in_morton_order(edits.apply(splats))
    write_html(tmp_path / "a.html", moved, [Stop(start)], up_direction(views))
    page = Page(tmp_path / "a.html")
    shown = pixels_in_the_page(page.splats(tmp_path), page.scene["views"][0], start)
    assert np.abs(np.sort(shown, axis=0) - np.sort(pixels(moved, start), axis=0)).max() < 0.05


@pytest.mark.parametrize("roll", [0, 20, 90])
def test_photograph_lies_over_the_splats(splats, roll):
    """Also of a camera that is rolled, or whose principal point is aside: the page's camera is neither."""
    start, other = ring_of_views()[:2]
    photographed = dataclasses.replace(
        rolled(other, roll), cx=0.3 * other.width, cy=0.6 * other.height, fy=1.1 * other.fx
    )
    stop = scene_of(splats_in_3d(splats, [Stop(start), Stop(photographed)], UP))["views"][1]
    at_distance_1 = SimpleNamespace(width=2 * stop["width"], height=2 * stop["height"])
    seen = pixels_in_the_page(rotated(splats, upright_rotation(UP, start)), stop, at_distance_1)
    place = pixels(splats, photographed) / [photographed.fx, photographed.fy]
    turn = np.array([[np.cos(stop["roll"]), -np.sin(stop["roll"])], [np.sin(stop["roll"]), np.cos(stop["roll"])]])
    np.testing.assert_allclose(place @ turn.T, seen, atol=1e-4)

    corners = np.array([(-1, -1), (-1, 1), (1, -1), (1, 1)]) * [stop["width"], stop["height"]] + stop["shift"]
    size = np.array([photographed.width, photographed.height])
    expected = np.array([(0, 0), (0, 1), (1, 0), (1, 1)]) * size - [photographed.cx, photographed.cy]
    np.testing.assert_allclose(corners, expected / [photographed.fx, photographed.fy], atol=1e-9)
    assert np.abs(corners @ turn.T).max(axis=0) == pytest.approx(stop["frame"])


def test_coarser_colours_make_a_part_smaller(splats):
    parts = [splats_in_3d(splats, [Stop(ring_of_views()[0])], UP, max_entries=number) for number in (300, 10)]
    assert parts[1].num_splat_bytes < 0.8 * parts[0].num_splat_bytes
    assert len(parts[0].html) - len(parts[1].html) == parts[0].num_splat_bytes - parts[1].num_splat_bytes


def test_up_direction_of_the_cameras_becomes_the_worlds():
    views = [Edits(rotate=(70.0, 0.0, 40.0)).similarity().apply(view) for view in ring_of_views()]
    rotation = upright_rotation(up_direction(views), views[2])
    np.testing.assert_allclose(rotation @ up_direction(views), [0, -1, 0], atol=1e-9)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-9)
    assert np.linalg.det(rotation) > 0
    portrait = upright_rotation(up_direction(views), rolled(views[2], 90))
    np.testing.assert_allclose(portrait @ up_direction(views), [0, -1, 0], atol=1e-9)


def test_orbit_center_is_among_the_splats(splats):
    for view in ring_of_views():
        assert np.linalg.norm(pivot_point(splats.means, view)) < 0.3


def test_orbit_center_is_estimated_from_a_sample_of_many_splats():
    """Pages compute one for each photograph; with all of plush's splats, that took 5 s."""
    means, view = np.random.default_rng(0).normal(0, 0.3, (100_000, 3)), ring_of_views()[0]
    np.testing.assert_array_equal(pivot_point(means, view), pivot_point(means[::5], view))
    assert np.linalg.norm(pivot_point(means, view)) < 0.1


def test_frame_scene_shows_what_the_cameras_saw(splats, tmp_path):
    """Huge splats far away are ignored; without cameras, also a tenth of the splats at each end."""
    splats.means[:20] *= 1000
    splats.log_scales[:20] = 5
    views = ring_of_views(radius=3.0)
    InitialCamera(views, None, (0.0, 0.0, 0.0), "a").write(tmp_path / "a.html", splats)
    frame = Page(tmp_path / "a.html").scene["frame"]
    assert np.linalg.norm(frame["center"]) < 0.3
    assert frame["radius"] == pytest.approx(3 * np.sqrt(2), rel=0.1)  # half the diagonal of the ring's box
    InitialCamera([], None, (0.0, 0.0, 0.0), "a").write(tmp_path / "b.html", splats)
    frame = Page(tmp_path / "b.html").scene["frame"]
    assert np.linalg.norm(frame["center"]) < 0.3
    assert 0.2 < frame["radius"] < 1


def test_page_walks_from_the_first_view(splats, tmp_path):
    """Twelve views in their order, from the one that opens; all of a tour."""
    views = [dataclasses.replace(view, name=f"{number:02}") for number, view in enumerate(ring_of_views(24))]
    InitialCamera(views, views[5], (0.0, 0.0, 0.0), "a").write(tmp_path / "a.html", splats)
    names = [view["name"] for view in Page(tmp_path / "a.html").scene["views"]]
    assert names[0] == "05"
    assert names[1:] == sorted(names[1:], key=lambda name: (name < "05", name))
    assert 11 <= len(names) - 1 <= 12
    InitialCamera(views, views[0], (0.0, 0.0, 0.0), "a", is_tour=True).write(tmp_path / "b.html", splats)
    scene = Page(tmp_path / "b.html").scene
    assert [view["name"] for view in scene["views"]] == [view.name for view in views]
    assert scene["isTour"]


def test_points_are_measured_in_the_source(splats, tmp_path):
    by = Edits(scale=2.0, rotate=(10.0, 20.0, 130.0), translate=(1.0, -2.0, 3.0)).similarity()
    views = ring_of_views()
    InitialCamera(views, views[2], (0.0, 0.0, 0.0), "a").moved(by).write(tmp_path / "a.html", splats)
    scene = Page(tmp_path / "a.html").scene
    found = np.array(scene["toSource"]) @ [*scene["views"][0]["position"], 1]
    np.testing.assert_allclose(found[:3], views[2].center, atol=1e-6)


def test_no_page_without_splats(splats, tmp_path):
    with pytest.raises(UsageError, match="was not written: it would show no splats"):
        write_html(tmp_path / "a.html", splats.select(np.zeros(300, bool)), [Stop(ring_of_views()[0])], UP)
    assert not (tmp_path / "a.html").exists()
