"""The viewer of camera poses and of training, without a browser: updates, pauses, speed, refused hosts."""

import sys
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from splat_cli.cli.main import run
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.sfm.mapping import Mapping
from splat_cli.terminal.console import Display, Progress
from splat_cli.viewer import live
from splat_cli.viewer.live import MappingViewer, Placed, _overview, _pyramids
from tests.viewer.stand_ins import Panel
from tests.views import ring_of_views


def test_updates_take_a_twentieth_of_the_time(monkeypatch):
    now = 100.0
    monkeypatch.setattr(live.time, "perf_counter", lambda: now)
    paced = live.Throttle(share=0.05)
    assert paced.due()
    with paced.interruption():
        now += 0.1
    now += 1.89
    assert not paced.due()
    now += 0.02
    assert paced.due()


@pytest.mark.parametrize("command", [["train", "."], ["sfm", ".", "-o", "scene"]])
@pytest.mark.parametrize("host", ["300.1.1.1", "192.0.2.1"])
def test_host_of_another_machine_is_refused(capsys, host, tmp_path, command, monkeypatch):
    """192.0.2.1 is reserved for documentation: no machine has this address."""
    pytest.importorskip("viser")
    monkeypatch.chdir(tmp_path)
    assert run([*command, "--viewer", "--host", host]) == 2
    assert f"no viewer at {host}:8080: " in capsys.readouterr().err


class Shown:
    """Stand-in for the window: counts updates of the splats."""

    def __init__(self, *args):
        self.times = 0

    def refresh(self):
        self.times += 1

    def work(self):
        return False

    wait = work


@pytest.fixture
def watching(monkeypatch, tmp_path):
    """(viewer, its window, its panel, a function that shows a step and takes a `check`)."""
    monkeypatch.setattr(live, "Window", Shown)

    def make(clients):
        panel = Panel(clients)
        viewer = live.TrainingViewer(panel, Display())
        trainer = SimpleNamespace(config=SimpleNamespace(steps=100), step=0)
        viewer.begin(trainer, RunDir(tmp_path))
        return viewer._window, panel, lambda step, check: viewer.on_steps(trainer, Progress(step, 0.1, 10), check)

    return make


def never():
    pytest.fail("nothing waits here")


def test_speed_counts_from_the_first_step_of_a_trainer(monkeypatch, tmp_path):
    monkeypatch.setattr(live, "Window", Shown)
    monkeypatch.setattr(live.time, "perf_counter", lambda: now)
    now = 100.0
    viewer = live.TrainingViewer(Panel(("somebody",)), Display())
    for first in (40, 20):  # the second call comes after a restart
        trainer = SimpleNamespace(config=SimpleNamespace(steps=100), step=first)
        viewer.begin(trainer, RunDir(tmp_path))
        now += 2
        viewer.on_steps(trainer, Progress(first + 20, 0.1, 10), never)
        assert ", 10 per second" in viewer._status.content
        viewer.end()


def test_without_a_browser_nothing_is_shown(watching):
    window, _, look = watching(clients=())
    look(1, never)
    assert window.times == 0


def test_new_steps_are_shown(watching):
    window, _, look = watching(clients=("somebody",))
    look(1, never)
    look(1, never)
    assert window.times == 1


def test_pause_lasts_until_continue_or_interrupt(watching):
    window, panel, look = watching(clients=("somebody",))
    panel.buttons["Pause"](None)
    look(1, lambda: panel.buttons["Pause"](None))  # the same button continues
    look(2, never)
    panel.buttons["Pause"](None)

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        look(3, stop)
    assert window.times >= 2  # the last step is always shown


@pytest.mark.parametrize(
    "command",
    [["view", ".", "--device", "cpu"], ["train", ".", "--viewer"], ["sfm", ".", "-o", "scene", "--viewer"]],
)
def test_missing_viser_is_reported_with_the_extra(command, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "viser", None)
    monkeypatch.chdir(tmp_path)
    assert run(command) == 2
    assert capsys.readouterr().err == "Error: the viewer needs viser: pip install 'splat-cli[viewer]'\n"


def placed(views, points=((0.0, 0.0, 0.0), (0.2, 0.0, 0.1)), color=0):
    """What mapping shows of these cameras."""
    return Placed(
        np.array([view.w2c[:3] for view in views], np.float32),
        np.array([(view.width / 2 / view.fx, view.height / 2 / view.fy) for view in views], np.float32),
        np.array(points, np.float32),
        np.full((len(points), 3), color, np.uint8),
    )


@pytest.mark.parametrize("views", [ring_of_views(12), ring_of_views(40)[:9], ring_of_views(12)[:1]])
def test_the_overview_shows_cameras_and_points(views):
    """Also before other cameras are placed, which are farther away than the points."""
    overview, distance = _overview(placed(views))
    everything = np.array([*(view.center for view in views), (0.0, 0.0, 0.0), (0.2, 0.0, 0.1)])
    shown = overview.project(everything)[2]
    assert shown.mean() >= 0.8
    assert np.linalg.norm(overview.center) == pytest.approx(distance, rel=0.6)
    up = -np.mean([view.w2c[1, :3] for view in views], axis=0)
    assert (overview.center - np.median(everything, axis=0)) @ up > 0
    assert -overview.w2c[1, :3] @ up > 0.8


def test_the_overview_of_cameras_that_are_half_upside_down():
    views = ring_of_views(12)
    up = placed(views[:1]).w2c[0, 1, :3]
    shown = placed(views[:1] * 2)
    shown.w2c[1, :2] *= -1
    overview, distance = _overview(shown)
    assert np.isfinite(overview.w2c).all()
    assert np.linalg.det(overview.w2c[:3, :3]) == pytest.approx(1)
    assert distance > 0
    assert overview.w2c[1, :3] @ up > 0.5


def test_pyramids_have_the_rays_of_corners():
    view = ring_of_views(12)[5]
    edges = _pyramids(placed([view]), 0.5)
    assert edges.shape == (8, 2, 3)
    np.testing.assert_allclose(edges[:4, 0], np.tile(view.center, (4, 1)), atol=1e-6)
    corners = edges[:4, 1] @ view.w2c[:3, :3].T + view.w2c[:3, 3]
    np.testing.assert_allclose(corners[:, 2], 0.5, atol=1e-6)
    np.testing.assert_allclose(np.abs(corners[:, :2]), np.tile((0.5 * 20 / 35, 0.5 * 15 / 36), (4, 1)), atol=1e-6)
    np.testing.assert_allclose(np.sort(edges[4:], axis=0).sum(axis=(0, 1)), 2 * edges[:4, 1].sum(axis=0), atol=1e-5)


class Scene(Panel):
    """Records what is drawn, and what is removed."""

    def __init__(self, clients):
        super().__init__(clients)
        self.drawn, self.removed, self.atomic = {}, [], nullcontext

    def _added(self, name, *args, **options):
        self.drawn[name] = args
        return SimpleNamespace(remove=lambda: self.removed.append(name))

    add_point_cloud = add_line_segments = _added

    def add_folder(self, name, **options):
        folder = nullcontext()
        folder.remove = lambda: self.removed.append(name)
        return folder


def browser(position=(9.0, 9.0, 9.0)):
    camera = SimpleNamespace(position=np.array(position), aspect=1.0)
    return SimpleNamespace(camera=camera, atomic=nullcontext)


def test_cameras_are_shown_as_they_are_placed():
    """Browsers follow until somebody moves the camera; points are gray until their colours are known."""
    idle, slow, moving = browser(), browser(), browser()
    start = slow.camera.position
    scene = Scene({1: idle, 2: moving, 3: slow})
    viewer = MappingViewer(scene, Display())
    few, all_of_them = placed(ring_of_views(40)[:9]), placed(ring_of_views(40), color=7)
    viewer.show(few)
    first = idle.camera.position
    assert len(scene.drawn["/placed/cameras"][0]) == 9 * 8
    assert (scene.drawn["/placed/points"][1] == 180).all()
    np.testing.assert_allclose(first, _overview(few)[0].center)
    moving.camera.position = moving.camera.position + 0.5
    here = moving.camera.position
    slow.camera.position = start  # it has not moved yet
    viewer.show(all_of_them)
    assert len(scene.drawn["/placed/cameras"][0]) == 40 * 8
    assert (scene.drawn["/placed/points"][1] == 7).all()
    np.testing.assert_allclose(idle.camera.position, _overview(all_of_them)[0].center)
    assert not np.allclose(idle.camera.position, first)
    np.testing.assert_array_equal(slow.camera.position, idle.camera.position)
    assert moving.camera.position is here
    assert viewer._status.content.startswith("**40** photographs placed")
    viewer.remove()
    assert sorted(scene.removed) == ["/placed/cameras", "/placed/points", "Camera poses"]


def test_a_viewer_that_fails_does_not_end_the_estimate(monkeypatch):
    scene, display = Scene({}), Display()
    viewer = MappingViewer(scene, display)
    monkeypatch.setattr(scene, "add_line_segments", Mock(side_effect=RuntimeError("no buffer")))
    for _ in range(2):
        viewer.show(placed(ring_of_views(9)))
    assert len(display.warnings) == 1
    assert "no buffer" in display.warnings[0]


def test_poses_are_judged_before_the_viewer_waits(monkeypatch, splat, tmp_path):
    @contextmanager
    def viewer(host, port, display):
        yield None
        display.say("press Ctrl-C")

    found = Mapping(9, ["a.jpg"], 100, 0.5, 4.0, 1)
    monkeypatch.setattr("splat_cli.cli.sfm._viewer", viewer)
    monkeypatch.setattr("splat_cli.scene.sfm.make_scene", lambda *args: found)
    monkeypatch.setattr("splat_cli.scene.read_scene", lambda path: None)
    monkeypatch.setattr("splat_cli.scene.plausibility.signs_of_wrong_poses", lambda scene: ["they cross"])
    said = splat("sfm", tmp_path, "-o", tmp_path / "scene", "--viewer").err
    before = said.partition("press Ctrl-C")[0]
    assert "the poses look wrong: they cross" in before
    assert "8 of 9 photographs registered" in before
    assert "press Ctrl-C" in said


def test_training_takes_the_place_of_mapping(monkeypatch, tmp_path):
    monkeypatch.setattr(live, "Window", Shown)
    scene = Scene({})
    viewer = live.TrainingViewer(scene, Display())
    viewer.show_placed(placed(ring_of_views(9)))
    viewer.show_placed(placed(ring_of_views(12)))
    assert scene.removed == []
    viewer.begin(SimpleNamespace(config=SimpleNamespace(steps=100), step=0), RunDir(tmp_path))
    assert sorted(scene.removed) == ["/placed/cameras", "/placed/points", "Camera poses"]
