"""The parts of the live viewer that need no browser."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from splat_cli.cli.main import run
from splat_cli.console import Display, Progress
from splat_cli.gaussians.splats import Splats
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.cameras_json import read_cameras
from splat_cli.scene.crop import Box
from splat_cli.scene.quaternion import quat_from_matrix
from splat_cli.viewer import live, throttle
from splat_cli.viewer.browse import unused_file
from splat_cli.viewer.camera_defaults import pivot_share
from splat_cli.viewer.panels.comparison import compose, padded
from splat_cli.viewer.panels.saved_views import SavedViews
from splat_cli.viewer.splat_colors import appearance
from splat_cli.viewer.viser_camera import field_of_view, pose_of, view_from
from tests.gaussians.some_splats import some_splats
from tests.views import ring_of_views


def test_updates_take_a_twentieth_of_the_time(monkeypatch):
    now = 100.0
    monkeypatch.setattr(throttle.time, "perf_counter", lambda: now)
    paced = throttle.Throttle(share=0.05)
    assert paced.due()
    with paced.interruption():
        now += 0.1
    now += 1.89
    assert not paced.due()
    now += 0.02
    assert paced.due()


def test_covariances_and_colours(backend):
    splats = some_splats(40)
    splats.logit_opacities[:] = np.linspace(-8, 3, 40)  # the first few are too faint to be seen
    splats.means[20, 1] = np.nan
    look = appearance(Splats.from_arrays(backend, splats))
    opacities = 1 / (1 + np.exp(-splats.logit_opacities))
    kept = (opacities >= 1 / 255) & (np.arange(40) != 20)
    assert 20 < kept.sum() < 39
    np.testing.assert_allclose(look.centers, splats.means[kept], atol=1e-6)
    np.testing.assert_allclose(look.opacities[:, 0], opacities[kept], atol=1e-6)
    np.testing.assert_allclose(look.rgbs, np.clip(0.5 + 0.28209479 * splats.sh0[kept], 0, 1), atol=1e-6)
    lengths, variances = np.exp(2 * np.sort(splats.log_scales[kept], axis=1)), np.linalg.eigvalsh(look.covariances)
    np.testing.assert_allclose(variances, lengths, rtol=2e-3, atol=2e-3)
    w, x, y, z = (splats.quats[0] / np.linalg.norm(splats.quats[0])).astype(np.float64)
    first = appearance(Splats.from_arrays(backend, _opaque(splats)))
    axis = np.array([1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)])
    variance = np.exp(2 * splats.log_scales[0, 0])
    np.testing.assert_allclose(first.covariances[0] @ axis, variance * axis, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("host", ["300.1.1.1", "192.0.2.1"])
def test_an_address_that_is_none_of_ours_is_refused(capsys, host, tmp_path):
    """192.0.2.1 is set aside for documentation: no machine has it."""
    pytest.importorskip("viser")
    assert run(["train", str(tmp_path), "--viewer", "--host", host]) == 2
    assert f"no viewer at {host}:8080: " in capsys.readouterr().err


def _opaque(splats):
    splats.logit_opacities[:] = 3
    return splats


def test_small_splats_are_as_faint_as_in_training(backend):
    splats = some_splats(60)
    splats.log_scales -= 5
    splats = _opaque(splats)
    on_device = Splats.from_arrays(backend, splats)
    raw, baked = appearance(on_device), appearance(on_device, ring_of_views())
    assert baked.opacities.mean() < 0.5 * raw.opacities.mean()


def test_a_box_hides_what_is_outside(backend):
    look = appearance(Splats.from_arrays(backend, _opaque(some_splats(100))))
    inside = look.inside(Box((-1, -1, -1), (1, 1, 1)))
    assert 0 < len(inside.centers) < len(look.centers)
    assert np.abs(inside.centers).max() <= 1
    assert len({len(array) for array in inside.arrays().values()}) == 1


def browser_camera(view):
    """What viser says of a browser whose camera is where `view` is."""
    position, wxyz = pose_of(view)
    return SimpleNamespace(
        position=position, wxyz=wxyz, fov=field_of_view(view), image_width=view.width + 1, image_height=view.height
    )


def test_a_browser_stands_where_the_view_was():
    view = ring_of_views()[4]
    found = view_from(browser_camera(view), "a")
    np.testing.assert_allclose(found.w2c, view.w2c, atol=1e-9)
    assert (found.width, found.height) == (40, 30)
    assert found.fy == pytest.approx(view.fy)
    np.testing.assert_allclose(pose_of(view)[1], quat_from_matrix(view.w2c[:3, :3].T))


def test_narrow_windows_show_all_of_the_view():
    view = ring_of_views()[0]
    own = field_of_view(view)
    assert field_of_view(view, 10.0) == own
    assert np.tan(field_of_view(view, 0.5) / 2) == pytest.approx(view.width / view.fx / 2 / 0.5)


class Panel:
    """Stands for viser's panel and scene: keeps buttons and texts, and what was added."""

    def __init__(self, clients=()):
        self.buttons = {}
        self.gui = self.scene = self
        self.get_clients = lambda: clients

    def __getattr__(self, name):
        return lambda *args, **options: Control(self, args)

    def add_folder(self, *args, **options):
        return pytest.MonkeyPatch.context()


class Control:
    def __init__(self, panel, args):
        self._panel, self._args, self.content = panel, args, args[0] if args else None

    def on_click(self, function):
        self._panel.buttons[self._args[0]] = function

    def remove(self):
        """Away with it."""


def test_kept_views_are_a_file_that_render_reads(tmp_path):
    panel, views = Panel(), ring_of_views()
    keeping = SavedViews(panel, tmp_path / "views.json", 0.1)
    for view in views[:3]:
        panel.buttons["Save this view"](SimpleNamespace(client=SimpleNamespace(camera=browser_camera(view))))
    panel.buttons["Remove the last"](None)
    read = read_cameras(tmp_path / "views.json")
    assert [view.name for view in read] == ["view_000", "view_001"] == [view.name for view in keeping.views]
    np.testing.assert_allclose(read[1].w2c, views[1].w2c, atol=1e-9)
    for _ in range(3):
        panel.buttons["Remove the last"](None)
    assert not (tmp_path / "views.json").exists()


def test_kept_views_replace_no_file(tmp_path):
    assert unused_file(tmp_path / "views.json") == tmp_path / "views.json"
    (tmp_path / "views.json").touch()
    (tmp_path / "views-2.json").touch()
    assert unused_file(tmp_path / "views.json") == tmp_path / "views-3.json"


def test_comparing():
    rendered, photograph = np.full((4, 10, 3), 10, np.uint8), np.full((4, 10, 3), 30, np.uint8)
    both = compose(rendered, photograph, 0.4, False)
    assert (both[:, :4] == 30).all()
    assert (both[:, 5:] == 10).all()
    assert (compose(rendered, photograph, 1.0, False) == photograph).all()
    assert (compose(rendered, photograph, 0.5, True) == 80).all()
    assert compose(rendered, None, 0.5, True) is rendered


def test_portraits_are_no_higher_than_the_panel_is_wide():
    portrait, landscape = np.full((20, 11, 3), 200, np.uint8), np.full((11, 20, 3), 200, np.uint8)
    square = padded(portrait)
    assert square.shape == (20, 20, 3)
    assert (square[:, 4:15] == portrait).all()
    assert (square[:, :4] == square[:, 15:16]).all()
    assert (padded(landscape) == landscape).all()


def test_a_drag_turns_about_a_near_point_where_nobody_stood_behind():
    views = ring_of_views(12)
    assert pivot_share(views) == pivot_share([]) == 1
    assert pivot_share(views[:4]) < 0.5


class Shown:
    """Stands for the window: counts how often splats are shown anew."""

    def __init__(self, *args):
        self.times = 0

    def refresh(self):
        self.times += 1

    def work(self):
        return False


@pytest.fixture
def watching(monkeypatch, tmp_path):
    """Makes (viewer, its window, its panel, a function that looks at a step with a `check`)."""
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


def test_speed_is_that_since_the_first_step_of_a_trainer(monkeypatch, tmp_path):
    monkeypatch.setattr(live, "Window", Shown)
    monkeypatch.setattr(live.time, "perf_counter", lambda: now)
    now = 100.0
    viewer = live.TrainingViewer(Panel(("somebody",)), Display())
    for first in (40, 20):  # the second one after a restart
        trainer = SimpleNamespace(config=SimpleNamespace(steps=100), step=first)
        viewer.begin(trainer, RunDir(tmp_path))
        now += 2
        viewer.on_steps(trainer, Progress(first + 20, 0.1, 10), never)
        assert ", 10 a second" in viewer._status.content
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


def test_a_pause_lasts_until_somebody_continues_or_stops(watching):
    window, panel, look = watching(clients=("somebody",))
    panel.buttons["Pause"](None)
    look(1, lambda: panel.buttons["Pause"](None))  # the same button continues
    look(2, never)
    panel.buttons["Pause"](None)

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        look(3, stop)
    assert window.times >= 2  # where it stopped is always shown


@pytest.mark.parametrize("command", [["view", "."], ["train", ".", "--viewer"]])
def test_without_viser_it_is_said_what_to_install(command, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "viser", None)
    monkeypatch.chdir(tmp_path)
    assert run([*command, "--device", "cpu"]) == 2
    assert capsys.readouterr().err == "Error: the viewer needs viser: pip install 'splat-cli[viewer]'\n"
