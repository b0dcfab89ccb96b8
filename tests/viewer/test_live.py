"""The viewer during training, without a browser: updates, pauses, speed, refused hosts."""

import sys
from types import SimpleNamespace

import pytest

from splat_cli.cli.main import run
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.terminal.console import Display, Progress
from splat_cli.viewer import live
from tests.viewer.stand_ins import Panel


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


@pytest.mark.parametrize("host", ["300.1.1.1", "192.0.2.1"])
def test_host_of_another_machine_is_refused(capsys, host, tmp_path):
    """192.0.2.1 is reserved for documentation: no machine has this address."""
    pytest.importorskip("viser")
    assert run(["train", str(tmp_path), "--viewer", "--host", host]) == 2
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


@pytest.mark.parametrize("command", [["view", "."], ["train", ".", "--viewer"]])
def test_missing_viser_is_reported_with_the_extra(command, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "viser", None)
    monkeypatch.chdir(tmp_path)
    assert run([*command, "--device", "cpu"]) == 2
    assert capsys.readouterr().err == "Error: the viewer needs viser: pip install 'splat-cli[viewer]'\n"
