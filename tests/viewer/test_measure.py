"""Measured distances of the live viewer: points on splats, and the scale of the scene."""

from types import SimpleNamespace

import numpy as np
import pytest

from splat_cli.viewer.panels import Measure, surface_point


def wall(depth, opacity, count=40):
    """Flat splats that fill the plane z = `depth`."""
    x, y = np.meshgrid(np.linspace(-2, 2, count), np.linspace(-2, 2, count))
    centers = np.stack([x.ravel(), y.ravel(), np.full(x.size, depth)], axis=1).astype(np.float32)
    covariances = np.tile(np.diag([0.01, 0.01, 1e-8]).astype(np.float32), (x.size, 1, 1))
    return centers, covariances, np.full((x.size, 1), opacity, np.float32)


def joined(*walls):
    return [np.concatenate(parts) for parts in zip(*walls, strict=True)]


def unit(*numbers):
    return np.array(numbers) / np.linalg.norm(numbers)


@pytest.mark.parametrize("direction", [unit(0, 0, 1), unit(0.3, -0.2, 1)])
def test_a_ray_stops_at_an_opaque_wall(direction):
    origin = np.array([0.1, 0.0, -1.0])
    point = surface_point(*joined(wall(5.0, 0.9), wall(3.0, 0.9)), origin, direction)
    assert point[2] == pytest.approx(3, abs=1e-3)
    np.testing.assert_allclose(np.cross(point - origin, direction), 0, atol=1e-9)


def test_a_ray_passes_haze_and_what_is_behind_it():
    walls = joined(wall(2.0, 0.01), wall(3.0, 0.9), wall(-4.0, 0.9))
    assert surface_point(*walls, np.zeros(3), unit(0, 0, 1))[2] == pytest.approx(3, abs=1e-3)


def test_a_ray_beside_all_splats_meets_nothing():
    assert surface_point(*wall(3.0, 0.9), np.zeros(3), unit(1, 0, 0.2)) is None
    assert surface_point(*wall(3.0, 0.005), np.zeros(3), unit(0, 0, 1)) is None


@pytest.mark.parametrize(("sigmas", "is_hit"), [(0.5, True), (2.5, False)])
def test_a_splat_fades_beside_its_centre(sigmas, is_hit):
    ball = np.array([[0.1 * sigmas, 0, 3.0]]), 0.01 * np.eye(3)[None], np.array([[0.9]])
    assert (surface_point(*ball, np.zeros(3), unit(0, 0, 1)) is not None) is is_hit


class Control:
    def __init__(self, value):
        self.value, self.content, self.visible = value, "", False

    def on_update(self, function):
        self.updated = lambda value: (setattr(self, "value", value), function(None))


class Server:
    """Stand-in for viser: named controls, objects of the scene, the click callback."""

    def __init__(self):
        self.gui = self.scene = self
        self.controls, self.objects, self.clicked, self.switched = {}, {}, None, []

    def add_folder(self, *args, **options):
        return pytest.MonkeyPatch.context()

    def on_click(self):
        return lambda function: setattr(self, "clicked", function)

    def remove_click_callback(self, function):
        self.clicked = None

    def __getattr__(self, name):
        def add(label, value="", *args, **options):
            if label.startswith("/"):
                self.objects[label] = value
                return SimpleNamespace(remove=lambda: self.objects.pop(label))
            return self.controls.setdefault(label, Control(value))

        return add


@pytest.fixture
def panel():
    """(server, its panel, a function that clicks at a point of the plane z = 2)."""
    server = Server()
    pick = lambda origin, direction: origin + 2 * direction / direction[2]  # noqa: E731
    measure = Measure(server, pick, 0.1, lambda picking: server.switched.append(picking))

    def click(x, y):
        server.clicked(SimpleNamespace(ray_origin=(0, 0, 0), ray_direction=(x, y, 2)))

    return server, measure, click


def test_two_clicks_measure_a_distance_and_a_third_begins_anew(panel):
    server, measure, click = panel
    assert server.clicked is None
    server.controls["Pick points"].updated(True)
    click(1, 0)
    assert measure.distance == 0
    click(1, 3)
    assert measure.distance == pytest.approx(3)
    assert server.objects["/measure/label"] == "3 units"
    assert {"/measure/0", "/measure/1", "/measure/line"} < server.objects.keys()
    click(0, 0)
    assert (len(measure.points), list(server.objects)) == (1, ["/measure/0"])
    server.controls["Pick points"].updated(False)
    assert (server.clicked, server.objects) == (None, {})
    assert server.switched == [True, False]


@pytest.mark.parametrize("length_is_first", [False, True])
def test_a_known_length_sets_the_scale_of_further_distances(panel, length_is_first):
    server, _, click = panel
    option, length = server.controls["Option"], server.controls["Length, m"]
    server.controls["Pick points"].updated(True)
    if length_is_first:
        length.updated(1.5)
    click(1, 0)
    click(1, 3)
    assert option.visible is length_is_first
    length.updated(1.5)
    assert (option.visible, option.value) == (True, "--scale-by 1,0,2 1,3,2 1.5m")
    assert server.objects["/measure/label"] == "1.5 m (3 units)"
    click(0, 0)
    click(0, 1)
    assert server.objects["/measure/label"] == "0.5 m (1 units)"
    assert option.value.endswith("1.5m")


def test_the_option_is_exact_far_from_the_origin(panel):
    """In metres of a map, for example; six digits would state 1 m for 0.6 m."""
    server, measure, click = panel
    server.controls["Pick points"].updated(True)
    measure._pick = lambda origin, direction: np.array([540000.25 + 0.6 * len(measure.points), 0, 0])
    click(0, 0)
    click(0, 0)
    server.controls["Length, m"].updated(1.5)
    assert server.controls["Option"].value == "--scale-by 540000.25,0,0 540000.85,0,0 1.5m"


def test_a_click_beside_the_scene_picks_nothing(panel):
    server, measure, _ = panel
    measure._pick = lambda origin, direction: None
    server.controls["Pick points"].updated(True)
    server.clicked(SimpleNamespace(ray_origin=(0, 0, 0), ray_direction=(0, 0, 1)))
    assert measure.points == []
