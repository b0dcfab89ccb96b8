"""Trial runs that choose the number of steps and --free-space."""

import io
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import splat_cli
from splat_cli.config import TrainConfig
from splat_cli.device import open_backend
from splat_cli.errors import FormatError
from splat_cli.report.page import page
from splat_cli.report.run_data import read_run_data
from splat_cli.run import plan
from splat_cli.run.resume import interrupted_run
from splat_cli.run.setup import trials
from splat_cli.run.setup.training_data import read_data
from splat_cli.run.setup.trials import Trial, choose, gain, needs_trials
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.terminal.console import Display
from tests.small_scene import write_small_scene

DEFAULT = 10_000


@pytest.mark.parametrize(
    ("short", "long", "penalized", "chosen"),
    [
        (21.4, 22.0, None, {"steps": DEFAULT}),
        (21.4, 21.5, 20.5, {"steps": DEFAULT}),
        (21.4, 21.3, 21.4, {"steps": DEFAULT}),  # 0.1 dB are within the noise of trials
        (19.2, 18.1, 18.2, {"steps": DEFAULT // 2}),
        (19.2, 18.1, None, {"steps": DEFAULT // 2}),  # no points, no penalty
        (19.2, 18.1, 19.5, {"steps": DEFAULT // 2, "free_space": 1.0}),
        (20.0, 20.35, 20.6, {"steps": DEFAULT // 2, "free_space": 1.0}),
    ],
)
def test_choice(short, long, penalized, chosen):
    results = [_trial(2500, 0, short), _trial(5000, 0, long)]
    results += [_trial(5000, 1, penalized)] if penalized else []
    assert choose(results, DEFAULT) == chosen


def _trial(steps, free_space, psnr):
    return Trial(steps, free_space, psnr, [psnr] * 10)


def test_a_single_photograph_does_not_decide():
    """One of ten photographs loses 6 dB by more steps, the others gain 0.1 dB: their mean would halve the steps."""
    short, long = _trial(2500, 0, 20.0), _trial(5000, 0, 20.1)
    long.per_view[3] = 14.0
    assert gain(short, long) == pytest.approx(0.1)
    assert choose([short, long], DEFAULT) == {"steps": DEFAULT}


@pytest.mark.parametrize(
    ("settings", "num_views", "expected"),
    [
        ({}, 36, True),
        ({}, 250, True),
        ({}, 35, False),
        ({}, 251, False),
        ({"steps": 15_000}, 100, False),
        ({"trials": False}, 100, False),
        ({"pose_opt": True}, 100, False),
        ({"appearance": "exposure"}, 100, False),
        ({"color": "field"}, 100, False),
        ({"init_from": "a.ply"}, 100, False),
        ({"frozen": "a.ply"}, 100, False),
        ({"free_space": 0.3}, 100, True),
    ],
)
def test_which_runs_need_trials(settings, num_views, expected):
    data = SimpleNamespace(training=SimpleNamespace(views=[None] * num_views))
    assert needs_trials(TrainConfig(**settings), data) is expected


@pytest.mark.parametrize(("given", "budget"), [(None, 0.87), (4.4, 2.2), (0, 0)])
def test_trials_have_half_the_splat_budget(given, budget):
    runner = SimpleNamespace(
        config=TrainConfig(splat_budget=given),
        default=DEFAULT,
        data=SimpleNamespace(training=SimpleNamespace(views=[])),
    )
    assert trials._Runner._settings(runner, 5_000, 0.0).splat_budget == budget


@pytest.fixture
def short_runs(monkeypatch):
    """Runs of 24 steps by default, 12 of them in the long trials."""
    monkeypatch.setattr(plan, "STEPS_RANGE", (24, 24))
    monkeypatch.setattr(trials, "LONG_SHARE", 1 / 2)
    monkeypatch.setattr(trials, "MIN_LONG", 1)


@pytest.fixture(scope="module")
def large_scene(tmp_path_factory):
    return write_small_scene(tmp_path_factory.mktemp("scenes") / "large", num_views=42)


def test_a_run_takes_the_settings_of_its_trials(splat, large_scene, short_runs, monkeypatch):
    monkeypatch.setattr(trials, "choose", lambda results, default: {"steps": default // 3, "free_space": 0.5})
    shown = splat("train", large_scene, "-o", "run", "--device", "cpu", "--eval", "--no-report")
    assert shown.code == 0, shown.err
    run = RunDir(Path("run"))
    assert (run.config().steps, run.config().free_space, run.result()["steps"]) == (8, 0.5, 8)
    record = run.trials()
    assert [(one["steps"], one["free_space"]) for one in record["trials"]] == [(6, 0), (12, 0), (12, 1)]
    for one in record["trials"]:
        assert len(one["per_view"]) == len(record["left_out"])
        assert one["psnr"] == pytest.approx(np.mean(one["per_view"]))
    assert (record["width"], record["height"]) == (20, 15)
    held_out = set(record["left_out"])
    assert held_out
    assert held_out <= {view.name for view in run.views("train")}
    shown_in_report = re.sub(r"<[^>]*>", " ", page(read_run_data(run), None, []))
    assert re.search(
        r"12 steps, --free-space 1 +[\d.]+ dB .*chosen for this run +8 steps, --free-space 0\.5", shown_in_report
    )
    assert re.search(r"Trials on 20x15: .* dB after 6 steps, .*; chosen: --steps 8 --free-space 0\.5", shown.err)


def test_the_repeated_command_continues_a_run_with_chosen_settings(splat, large_scene, short_runs, monkeypatch):
    monkeypatch.setattr(trials, "choose", lambda results, default: {"steps": default, "free_space": 0.5})
    assert splat("train", large_scene, "-o", "run", "--device", "cpu", "--no-report").code == 0
    (Path("run") / "result.json").unlink()
    same, other = TrainConfig(report=False), TrainConfig(report=False, free_space=0.1)
    assert interrupted_run([Path("run")], large_scene, same) == Path("run")
    assert interrupted_run([Path("run")], large_scene, other) is None


def test_training_in_memory_takes_the_settings_of_its_trials(large_scene, short_runs, monkeypatch):
    monkeypatch.setattr(trials, "choose", lambda results, default: {"steps": 7})
    result = splat_cli.train_scene(large_scene, device="cpu", quiet=True)
    assert result.steps == 7


def test_without_memory_for_trials_the_defaults_are_kept(splat, large_scene, short_runs, monkeypatch):
    def fail(*arguments):
        raise MemoryError

    monkeypatch.setattr(trials, "evaluate", fail)
    shown = splat("train", large_scene, "-o", "run", "--device", "cpu", "--no-report")
    assert shown.code == 0, shown.err
    assert "Warning: no trial runs: out of memory" in shown.err
    assert RunDir(Path("run")).config().steps == 24
    assert not RunDir(Path("run")).trials_path.exists()


@pytest.mark.parametrize(("gained", "num_trials"), [(0.1, 3), (0.5, 2)])
def test_the_penalty_is_tried_only_if_more_steps_gain_little(
    splat, large_scene, short_runs, monkeypatch, gained, num_trials
):
    scores = iter([20.0, 20.0 + gained, 19.0])
    monkeypatch.setattr(trials._Runner, "_psnr", lambda *_: [next(scores)])
    assert splat("train", large_scene, "-o", "run", "--device", "cpu", "--no-report").code == 0
    assert len(RunDir(Path("run")).trials()["trials"]) == num_trials


def test_trials_leave_out_what_scores_them(large_scene, monkeypatch):
    """No trial trains on a photograph that scores it."""
    config = TrainConfig(eval=True)
    data = read_data(large_scene, config, open_backend("cpu"), Display(io.StringIO()))
    runner = trials._Runner(config, data, open_backend("cpu"), Display(io.StringIO()))
    trained, scored = ({view.name for view in one.views} for one in (runner.data.training, runner.left_out))
    assert not trained & scored
    assert trained | scored == {view.name for view in data.training.views}


def test_trials_do_not_influence_the_training(splat, tmp_path, short_runs, monkeypatch):
    """A run with the settings that trials chose has the same bits as one that was given them."""
    scene = write_small_scene(tmp_path / "large", num_views=50)  # trains in batches
    monkeypatch.setattr(trials, "choose", lambda results, default: {"steps": 16})
    command = ["train", scene, "--device", "cpu", "--no-report", "--deterministic", "--eval"]
    assert splat(*command, "-o", "chosen").code == 0
    assert splat(*command, "-o", "given", "--steps", 16).code == 0
    chosen, given = (RunDir(Path(name)).ply_path(16).read_bytes() for name in ("chosen", "given"))
    assert chosen == given


@pytest.mark.parametrize(
    "content",
    [
        '{"trials": [], "chosen": {}}',
        '{"trials": [], "chosen": {"steps": "8"}}',
        '{"trials": [{"steps": 8, "free_space": 0}], "chosen": {"steps": 8}}',
        '{"trials": 3, "chosen": {"steps": 8}}',
    ],
)
def test_a_damaged_record_is_named(tmp_path, content):
    (tmp_path / "trials.json").write_text(content)
    with pytest.raises(FormatError, match=r"trials\.json is corrupt: expected `(trials|chosen)`"):
        RunDir(tmp_path).trials()
