"""Lines of train.jsonl."""

import io
import json
from types import SimpleNamespace

import pytest

from splat_cli.run import training_log as module
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.run.training_log import RunLog
from splat_cli.terminal.console import Display, Progress


@pytest.fixture
def trainer():
    return SimpleNamespace(step=0, notices=[], nonfinite_counts={}, backend=SimpleNamespace(peak_bytes=1000))


@pytest.fixture
def log(tmp_path, monkeypatch):
    """`log(step, seconds)` records a step; `log.lines()` returns the lines so far."""
    now = iter(range(1, 100))
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(now))
    logbook = RunLog(RunDir(tmp_path), Display(io.StringIO()))
    logbook.lines = lambda: [json.loads(line) for line in logbook.run.log.path.read_text().splitlines()]
    return logbook


def _note(log, trainer, step, seconds):
    trainer.step = step
    log.record(trainer, Progress(step, 0.5, 10, 20.0), seconds, last_step=1000)


def test_speed_is_measured_since_the_previous_line(log, trainer):
    log.start_from(100, 10.0)
    for step, seconds in ((110, 11.0), (150, 12.0), (151, 12.01), (190, 14.0)):
        _note(log, trainer, step, seconds)
    assert [line["steps_per_second"] for line in log.lines()] == [10, 40, 40, 20]


def test_warnings_of_display_and_trainer_are_logged(log, trainer):
    log.display.warn("early")
    trainer.notices.append("out of memory")
    _note(log, trainer, 5, 1.0)
    log.display.warn("late")
    log.close(6, {"training": 2.5})
    assert [(line["step"], line["warning"]) for line in log.lines() if "warning" in line] == [
        (5, "early"),
        (5, "out of memory"),
        (6, "late"),
    ]
    assert log.lines()[-1] == {"step": 6, "phases": {"training": 2.5}}
