"""Reconstructions of OpenSfM and OpenDroneMap: pixels of points, by the formulas of OpenSfM's documentation."""

import json

import numpy as np
import pytest

from splat_cli.errors import SceneError
from splat_cli.scene import read_scene
from tests.scene.export_files import write_opensfm
from tests.views import ring_of_views

RNG = np.random.default_rng(0)
POINTS, COLORS = RNG.uniform(-0.5, 0.5, (20, 3)), RNG.integers(0, 256, (20, 3), dtype=np.uint8)
BROWN = {"k1": 0.03, "k2": -0.02, "k3": 0.01, "p1": 0.002, "p2": -0.003}


@pytest.fixture
def views():
    return ring_of_views(5)


def opensfm_pixels(view, model, values):
    """u and v of the documentation, in pixels, float64 [P, 2]."""
    x, y, z = (POINTS @ view.w2c[:3, :3].T + view.w2c[:3, 3]).T
    x, y = x / z, y / z
    if model == "fisheye":
        radius = np.hypot(x, y)
        x, y = x * np.arctan(radius) / radius, y * np.arctan(radius) / radius
    r2 = x * x + y * y
    radial = 1 + values.get("k1", 0) * r2 + values.get("k2", 0) * r2**2 + values.get("k3", 0) * r2**3
    p1, p2 = values.get("p1", 0), values.get("p2", 0)
    u = radial * x + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
    v = radial * y + 2 * p2 * x * y + p1 * (r2 + 2 * y * y)
    return np.stack([view.fx * u + view.cx, view.fy * v + view.cy], axis=-1)


@pytest.mark.parametrize(
    ("model", "values"),
    [
        ("brown", BROWN),
        ("radial", {"k1": 0.03, "k2": -0.02}),
        ("fisheye", {"k1": 0.03}),
        ("perspective", {"k1": 0.0, "k2": 0.0}),
    ],
)
def test_opensfm(tmp_path, views, model, values):
    write_opensfm(tmp_path, views, POINTS, COLORS, model, **values)
    scene = read_scene(tmp_path)
    assert len(scene.views) == 5
    for view, other in zip(scene.views, views, strict=True):
        lens = view.lens or view
        x, y, z = (POINTS @ view.w2c[:3, :3].T + view.w2c[:3, 3]).T
        flat = np.stack([x / z, y / z], axis=-1)
        bent = flat if view.lens is None else view.lens.distortion.distort(flat)
        expected = opensfm_pixels(other, model, values)
        np.testing.assert_allclose(bent * [lens.fx, lens.fy] + [lens.cx, lens.cy], expected, atol=1e-6)
    np.testing.assert_allclose(scene.points, POINTS, atol=1e-6)
    np.testing.assert_array_equal(scene.colors, COLORS)
    assert "the first of 2 that are not connected" in scene.found
    assert len(read_scene(tmp_path / "opensfm").views) == 5


def test_coefficients_that_are_not_read_are_not_ignored(tmp_path, views):
    write_opensfm(tmp_path, views, POINTS, COLORS, "brown", **BROWN, k5=0.1)
    with pytest.raises(SceneError, match="its lens has `k5`, which"):
        read_scene(tmp_path)


def test_spherical_photographs(tmp_path):
    write_opensfm(tmp_path, ring_of_views(3, width=60), POINTS, COLORS, "spherical")
    for view in read_scene(tmp_path).views:
        x, y, z = (POINTS @ view.w2c[:3, :3].T + view.w2c[:3, 3]).T
        u, v = np.arctan2(x, z) / (2 * np.pi), np.arctan2(y, np.hypot(x, z)) / (2 * np.pi)  # relative to the width
        assert view.width == 2 * view.height
        expected = view.width * np.stack([u + 0.5, v + 0.25], axis=-1)
        np.testing.assert_allclose(view.project(POINTS)[0], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"brown"', '"odd"', "its camera is of type 'odd'"),
        ('"focal_x": ', '"focal_x": -', "focal lengths -"),
        ('"camera": "v2', '"camera": "v3', "camera is not in the file"),
        ('"rotation": [', '"rotation": [1, ', "'rotation' is not a list of 3 finite numbers"),
        ('"translation": [', '"translation": [1e99, 0, 0], "t": [', "`translation` has numbers that are not below"),
        ('"coordinates": [', '"coordinates": ["x", ', "is not a reconstruction of OpenSfM"),
        ('"coordinates": [', '"coordinates": [1e, 0.0, 0.0], "c": [', "is not a reconstruction of OpenSfM"),
        ('"color"', '"colour"', "is not a reconstruction of OpenSfM"),
        ('"shots": {', '"shots": 3, "s": {', "is not a reconstruction of OpenSfM"),
    ],
)
def test_damaged_reconstructions(tmp_path, views, old, new, reason):
    write_opensfm(tmp_path, views, POINTS, COLORS)
    path = tmp_path / "opensfm" / "reconstruction.json"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(SceneError, match=reason):
        read_scene(tmp_path)


def test_other_files_of_this_name(tmp_path):
    (tmp_path / "reconstruction.json").write_text(json.dumps({"projection_type": []}))
    with pytest.raises(SceneError, match="neither photographs nor camera poses"):
        read_scene(tmp_path)


def test_points_of_the_first_reconstruction_in_any_order(tmp_path, views):
    write_opensfm(tmp_path, views, POINTS, COLORS)
    path = tmp_path / "opensfm" / "reconstruction.json"
    first, _ = json.loads(path.read_text())
    other = {"cameras": {}, "shots": {}, "points": {"0": {"color": [1.0, 2.0, 3.0], "coordinates": [9.0, 9.0, 9.0]}}}
    first["points"]["3"] = {name: first["points"]["3"][name] for name in ("coordinates", "color")}
    path.write_text(json.dumps([first, other], indent=4))
    scene = read_scene(tmp_path)
    order = [*range(3), *range(4, 20), 3]
    np.testing.assert_allclose(scene.points, POINTS[order], atol=1e-6)
    np.testing.assert_array_equal(scene.colors, COLORS[order])
