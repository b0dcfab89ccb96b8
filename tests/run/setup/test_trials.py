"""Trial runs that choose --free-space and the number of steps."""

import functools
import gc
import io
import re
import threading
import weakref
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
from splat_cli.run.setup import initial_state, trials
from splat_cli.run.setup.training_data import read_data
from splat_cli.run.setup.trials import Trial, Trials, choose, choose_settings, gain, needs_trials
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.lens.distortion import Equirectangular
from splat_cli.terminal.console import Display
from tests.small_scene import write_small_scene

DEFAULT = 10_000


def _trial(free_space, ssim, appearance="none", psnr=20.0):
    return Trial(2_500, free_space, appearance, psnr, ssim, [ssim] * 10)


@pytest.mark.parametrize(
    ("gained", "chosen"),
    [
        (0.0005, {"steps": DEFAULT // 2, "free_space": 1.0, "dropout": 0.3}),
        (-0.0005, {"steps": DEFAULT}),
    ],
)
def test_choice(gained, chosen):
    assert choose(_trial(0, 0.75), _trial(1, 0.75 + gained), DEFAULT, 4) == chosen


def test_a_single_photograph_does_not_decide():
    """One of ten photographs gains 0.3 by the penalty, the others lose 0.01: their mean would choose it."""
    plain, penalized = _trial(0, 0.8), _trial(1, 0.79)
    penalized.per_view[3] = 1.1
    assert gain(plain, penalized) == pytest.approx(-0.01)
    assert choose(plain, penalized, DEFAULT, 4) == {"steps": DEFAULT}


@pytest.mark.parametrize(
    ("ssim", "gained", "batch", "chosen"),
    [
        (0.65, -0.01, 4, {"steps": 2 * DEFAULT, "splat_budget": pytest.approx(2.61), "batch": 8}),
        (0.65, -0.01, 1, {"steps": 2 * DEFAULT, "splat_budget": pytest.approx(2.61)}),
        (0.65, -0.01, 8, {"steps": 2 * DEFAULT, "splat_budget": pytest.approx(2.61)}),  # 16 lose 0.1 dB on bonsai
        (0.67, -0.02, 4, {"steps": DEFAULT}),
        (0.65, 0.02, 4, {"steps": DEFAULT // 2, "free_space": 1.0, "dropout": 0.3}),  # more would overfit
    ],
)
def test_poor_scores_take_more_steps_and_splats(ssim, gained, batch, chosen):
    assert choose(_trial(0, ssim), _trial(1, ssim + gained), DEFAULT, batch) == chosen


@pytest.mark.parametrize(
    ("settings", "num_views", "expected"),
    [
        ({}, 10, True),
        ({}, 30, True),
        ({}, 250, True),
        ({}, 9, False),
        ({}, 251, False),
        ({"steps": 15_000}, 100, False),
        ({"trials": False}, 100, False),
        ({"pose_opt": True}, 100, False),
        ({"appearance": "exposure"}, 100, False),
        ({"appearance": "none"}, 100, True),
        ({"color": "field"}, 100, False),
        ({"init_from": "a.ply"}, 100, False),
        ({"frozen": "a.ply"}, 100, False),
        ({"free_space": 0.3}, 100, False),
        ({"free_space": 0}, 100, False),
    ],
)
def test_which_runs_need_trials(settings, num_views, expected, monkeypatch):
    monkeypatch.setattr(trials, "views_per_point", lambda views, share: share * len(views))
    for lens, share, fits in ((None, 0.6, True), (Equirectangular(), 0.6, False), (None, 0.5, num_views >= 30)):
        views, scene = [SimpleNamespace(distortion=lens)] * num_views, SimpleNamespace(points=share)
        data = SimpleNamespace(training=SimpleNamespace(views=views), scene=scene)
        assert needs_trials(TrainConfig(**settings), data) is (expected and fits)


@pytest.mark.parametrize("num_found", [0, 300])
def test_scenes_without_points_have_trials_if_the_plane_sweep_finds_some(tmp_path, monkeypatch, num_found):
    swept = np.random.default_rng(0).normal(size=(num_found, 3)).astype(np.float32), np.zeros((num_found, 3), np.uint8)
    monkeypatch.setattr(initial_state, "_sweep", lambda *_: (None, swept))
    monkeypatch.setattr(trials._Runner, "run", lambda _: Trials(20, 15, [], [_trial(0, 0.8)], {"steps": 7}))
    scene, display = write_small_scene(tmp_path / "scene", num_views=42, num_points=0), Display(io.StringIO())
    data = read_data(scene, TrainConfig(), open_backend("cpu"), display)
    config, found = choose_settings(TrainConfig(), data, open_backend("cpu"), display)
    assert (config.steps, found is None) == ((7, False) if num_found else (None, True))


@pytest.mark.parametrize(("given", "budget"), [(None, 0.87), (4.4, 2.2), (0, 0)])
def test_trials_have_half_the_splat_budget(given, budget):
    runner = SimpleNamespace(
        config=TrainConfig(splat_budget=given),
        default=DEFAULT,
        few=False,
        data=SimpleNamespace(training=SimpleNamespace(views=[])),
    )
    assert trials._Runner._settings(runner, 2_500, 0.0).splat_budget == budget


@pytest.mark.parametrize("given", [{}, {"strategy": "adc", "batch": 2, "init_opacity": 0.2, "noise_scale": 3.0}])
def test_trials_start_like_the_long_run_that_follows(given):
    config = TrainConfig(gpus=2, save_at=(7,), depth_weight=0.5 if given else None, **given)
    views = SimpleNamespace(training=SimpleNamespace(views=[None] * 100))
    runner = SimpleNamespace(config=config, default=DEFAULT, data=views, few=False)
    found = trials._Runner._settings(runner, 2_500, 1.0)
    expected = {"strategy": "copies", "batch": 4, "noise_scale": 30_000}
    expected |= {"steps": 2_500, "free_space": 1.0, "gpus": 1, "depth_weight": 0.0, "save_at": None} | given
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("is_large", "given", "expected"),
    [(True, {}, (0.1, 1.0)), (False, {}, (0.5, 0.1)), (True, {"init_scale": 0.3}, (0.1, 0.3))],
)
def test_splats_of_trials_are_as_large_at_the_start_as_those_of_the_run(
    large_scene, monkeypatch, is_large, given, expected
):
    """The photographs of the run decide, not those that are left in trials."""
    num_views = len(read_data(large_scene, TrainConfig(), open_backend("cpu"), Display(io.StringIO())).training.views)
    monkeypatch.setattr(plan, "starts_large", lambda number, overlap: is_large and number == num_views)
    config, backend, display = TrainConfig(init="points", **given), open_backend("cpu"), Display(io.StringIO())
    runner = trials._Runner(config, read_data(large_scene, config, backend, display), backend, display)
    found = runner.data.plan(runner._settings(5_000, 0.0)).config
    assert (found.init_opacity, found.init_scale) == expected


def test_trials_with_exposures_have_the_batch_of_the_run_that_follows():
    views = SimpleNamespace(training=SimpleNamespace(views=[None] * 100))
    runner = SimpleNamespace(config=TrainConfig(), default=DEFAULT, data=views, few=False)
    found = [trials._Runner._settings(runner, 2_500, 0.0, appearance) for appearance in ("none", "exposure")]
    assert [(one.appearance, one.batch) for one in found] == [("none", 4), ("exposure", 1)]


@pytest.mark.parametrize(
    ("sizes", "side"),
    [
        ([(200, 150)], 100),
        ([(800, 600)], 200),
        ([(300, 200), (1600, 1200)], 200),
        ([(400, 100), (90, 300)], 200),
        ([(20, 15)], 16),
    ],
)
def test_photographs_of_trials_have_half_the_width_or_less(sizes, side):
    assert trials._longer_side([SimpleNamespace(width=width, height=height) for width, height in sizes]) == side


QUICK = "--device", "cpu", "--no-report", "--init", "points"  # each trial would sweep the photographs for points


@pytest.fixture
def short_runs(monkeypatch):
    """Runs of 24 steps by default, 12 of them in trials."""
    monkeypatch.setattr(plan, "STEPS_RANGE", (24, 24))
    monkeypatch.setattr(trials, "SHARE", 1 / 2)
    monkeypatch.setattr(trials, "MIN_STEPS", 1)


@pytest.fixture(scope="module")
def large_scene(tmp_path_factory):
    return write_small_scene(tmp_path_factory.mktemp("scenes") / "large", num_views=42)


def test_a_run_takes_the_settings_of_its_trials(splat, large_scene, short_runs, monkeypatch):
    monkeypatch.setattr(trials, "choose", lambda *found: {"steps": found[2] // 3, "free_space": 0.5, "dropout": 0.1})
    shown = splat("train", large_scene, "-o", "run", "--eval", *QUICK)
    assert shown.code == 0, shown.err
    run = RunDir(Path("run"))
    config = run.config()
    assert (config.steps, config.free_space, config.dropout, run.result()["steps"]) == (8, 0.5, 0.1, 8)
    record = run.trials()
    assert [(one["steps"], one["free_space"]) for one in record["trials"]] == [(12, 0), (6, 1)]
    for one in record["trials"]:
        assert len(one["per_view"]) == len(record["left_out"])
        assert one["ssim"] == pytest.approx(np.mean(one["per_view"]))
    assert (record["width"], record["height"]) == (20, 15)
    held_out = set(record["left_out"])
    assert held_out
    assert held_out <= {view.name for view in run.views("train")}
    shown_in_report = re.sub(r"<[^>]*>", " ", page(read_run_data(run), None, []))
    chosen = r"--steps 8 --free-space 0\.5 --dropout 0\.1"
    assert re.search(
        rf"6 steps, --free-space 1 +[\d.]+ dB, SSIM 0\.\d+ .*chosen for this run +{chosen}", shown_in_report
    )
    score = r"[\d.]+ dB / 0\.\d{3}"
    trained = f"{score} after 12 steps, {score} after 6 steps with --free-space 1"
    assert re.search(rf"Trials on 20x15: {trained}; chosen: {chosen}", shown.err)


def test_trials_look_for_transparency_in_the_photographs_of_the_run_alone(splat, large_scene, short_runs, monkeypatch):
    """Each photograph that is looked at is decoded."""
    seen, few = set(), 9
    monkeypatch.setattr(plan, "MAX_DECODED", few)
    monkeypatch.setattr(plan, "has_alpha", lambda path: seen.add(path) or False)
    assert splat("train", large_scene, "-o", "run", *QUICK).code == 0
    assert RunDir(Path("run")).trials()
    assert len(seen) == few


def test_the_repeated_command_continues_a_run_with_chosen_settings(splat, large_scene, short_runs, monkeypatch):
    chosen = {"steps": 24, "free_space": 0.5, "dropout": 0.1, "splat_budget": 3.0, "appearance": "exposure"}
    found = Trials(20, 15, [], [_trial(0, 0.8), _trial(0, 0.8, "exposure")], chosen)
    monkeypatch.setattr(trials._Runner, "run", lambda _: found)
    shown = splat("train", large_scene, "-o", "run", *QUICK)
    assert "after 2,500 steps with --appearance exposure; chosen: --steps 24" in shown.err
    assert {name: getattr(RunDir(Path("run")).config(), name) for name in chosen} == chosen
    refused = splat("train", "--resume", "run", "--device", "cpu", "--gpus", 2, "--steps", 48)
    assert "does not work with --appearance exposure, which the trial runs of run chose" in refused.err
    assert refused.code == 2
    (Path("run") / "result.json").unlink()
    assert interrupted_run([Path("run")], large_scene, TrainConfig(report=False, init="points")) == Path("run")
    others = (
        {"free_space": 0.1},
        {"dropout": 0.2},
        {"splat_budget": 2.0},
        {"appearance": "grid"},
        {"appearance": "none"},
    )
    for other in others:
        assert interrupted_run([Path("run")], large_scene, TrainConfig(report=False, init="points", **other)) is None


@pytest.mark.parametrize(("budget", "chosen"), [(2.468, 2.47), (None, None)])
def test_the_budget_follows_from_detail_and_error(monkeypatch, budget, chosen):
    views = [SimpleNamespace(width=20, height=10)] * 3
    detail = [(part / 1000, 0.004) for part in (1, 2, 3)]
    runner = SimpleNamespace(originals=SimpleNamespace(views=views), detail=detail)
    shares = trials._Runner._shares(runner, 30.0)
    asked = ([pytest.approx(detail / 5) for detail in (1, 2, 3)], 7_000, 3, 600)
    monkeypatch.setattr(trials, "budget_by_detail", lambda *arguments: budget if arguments == asked else 0.0)
    assert trials._Runner._budget(runner, shares, 7_000) == chosen


def _runner(config=None, num_views=100, **methods):
    """Stand-in for a _Runner whose trials and measurements are `methods`."""
    photographs, left_out = SimpleNamespace(views=[None] * num_views), SimpleNamespace(views=[])
    given = {"config": config or TrainConfig(), "default": DEFAULT, "steps": 5_000, "size": (20, 15)}
    given |= {"few": num_views < trials.ENOUGH, "streams": False}
    data = SimpleNamespace(training=photographs, scene=SimpleNamespace(points=np.zeros((0, 3))))
    runner = SimpleNamespace(**given, originals=photographs, left_out=left_out, data=data, **methods)
    for name in ("_add_detail", "_batch", "_compared"):
        setattr(runner, name, functools.partial(getattr(trials._Runner, name), runner))
    return runner


@pytest.mark.parametrize(
    ("num_views", "share", "ssim", "expected"),
    [
        (100, 1.3, 0.8, 15_000),
        (100, 1.1, 0.8, DEFAULT),
        (100, 1.3, 0.9, DEFAULT // 2),
        (36, 1.3, 0.8, 15_000),
        (35, 1.3, 0.8, DEFAULT),
        (19, 1.3, 0.8, DEFAULT),
    ],
)
def test_much_fine_detail_of_many_photographs_takes_more_steps_without_the_penalty(num_views, share, ssim, expected):
    """ssim: of the trial with the penalty; the other has 0.85."""
    runner = _runner(
        num_views=num_views,
        _trial=lambda _, weight=0, appearance=None: _trial(weight, ssim if weight else 0.85),
        _shares=lambda psnr: [share - 0.5, share + 0.5],
        _budget=lambda shares, steps: None,
    )
    assert trials._Runner.run(runner).chosen["steps"] == expected


@pytest.mark.parametrize(("gained", "chosen"), [(0.01, DEFAULT // 2), (-0.01, DEFAULT)])
def test_few_photographs_choose_the_penalty_only(gained, chosen):
    """Their scores are poor because they are few, not because steps or splats are. All steps show overfitting."""
    tried = []

    def trial(steps, weight=0, appearance="none"):
        tried.append(steps)
        return _trial(weight, 0.6 + (gained if weight else 0))

    expected = {"steps": chosen} | ({"free_space": 1.0, "dropout": 0.3} if gained > 0 else {})
    runner = _runner(num_views=35, _trial=trial, _shares=lambda _: [0.0], _budget=lambda *_: None)
    assert trials._Runner.run(runner).chosen == expected
    assert tried == [DEFAULT, 2_500]


@pytest.mark.parametrize(("num_views", "num_trials"), [(19, 1), (20, 2), (35, 2)])
def test_few_photographs_choose_more_splats_where_fine_detail_is_missing(num_views, num_trials):
    """Under 20 photographs, by one trial, like the default, because too few score it to compare it with another."""
    tried = []

    def trial(steps, weight=0, appearance="none"):
        tried.append((steps, weight))
        return _trial(weight, 0.8 - weight / 10, psnr=25.0 - weight)

    runner = _runner(
        num_views=num_views,
        _trial=trial,
        _shares=lambda psnr: [psnr / 100],
        _budget=lambda shares, steps: 12 * shares[0],
    )
    assert trials._Runner.run(runner).chosen == {"steps": DEFAULT, "splat_budget": 3.0}
    assert tried == [(5_000, 0)] if num_trials == 1 else [(DEFAULT, 0), (2_500, 1)]


@pytest.mark.parametrize(
    ("few", "weight", "given", "dropout"),
    [(True, 1.0, None, 0.3), (True, 1.0, 0.1, 0.1), (True, 0.0, None, None), (False, 1.0, None, None)],
)
def test_with_few_photographs_the_penalty_is_tried_with_its_dropout(few, weight, given, dropout):
    views = SimpleNamespace(training=SimpleNamespace(views=[None] * 30))
    runner = SimpleNamespace(config=TrainConfig(dropout=given), default=DEFAULT, data=views, few=few)
    assert trials._Runner._settings(runner, 2_500, weight).dropout == dropout


@pytest.mark.parametrize("given", [None, 3.0])
def test_the_better_trial_measures_the_error(given):
    """... unless the budget is given."""
    runner = _runner(
        config=TrainConfig(splat_budget=given),
        _trial=lambda steps, weight=0, appearance=None: Trial(steps, weight, "none", 20.0 + weight, 0.8, [0.8] * 10),
        _shares=lambda psnr: [psnr / 100],
        _budget=lambda shares, steps: shares[0] + steps,
    )
    expected = {"steps": DEFAULT} | ({"splat_budget": 0.21 + DEFAULT} if given is None else {})
    assert trials._Runner.run(runner).chosen == expected


@pytest.mark.parametrize(("by_detail", "expected"), [(None, 2.61), (2.0, 2.61), (3.0, 3.0)])
def test_the_larger_budget_is_chosen(by_detail, expected):
    runner = _runner(
        _trial=lambda _, weight=0, appearance=None: _trial(weight, 0.6 - weight / 10),
        _shares=lambda _: [0.0],
        _budget=lambda *_: by_detail,
    )
    chosen = {"steps": 2 * DEFAULT, "splat_budget": pytest.approx(expected), "batch": 8}
    assert trials._Runner.run(runner).chosen == chosen


@pytest.mark.parametrize(
    ("spread", "gained", "given", "chosen"),
    [
        (0.12, 0.1, {}, {"appearance": "exposure"}),
        (0.12, -0.1, {}, {}),
        (0.09, 0.1, {}, {}),
        (0.12, 0.1, {"gpus": 2}, {}),
        (0.12, 0.1, {"appearance": "none"}, {}),
    ],
)
def test_exposures_are_trained_if_they_differ_and_a_trial_gains(monkeypatch, spread, gained, given, chosen):
    """A further trial, in dB; the one with the penalty trains them, too."""
    tried = []

    def trial(steps, weight=0, appearance="none"):
        tried.append((weight, appearance))
        return _trial(weight, 0.8 - weight / 10, appearance, 20 + gained * (appearance == "exposure"))

    monkeypatch.setattr(trials, "exposure_spread", lambda photographs, points: spread)
    runner = _runner(
        TrainConfig(**given), _trial=trial, _shares=lambda _: [0.0], _budget=lambda *_: None, _batch=lambda _: 4
    )
    assert trials._Runner.run(runner).chosen == {"steps": DEFAULT} | chosen
    last = (trials.PENALTY, chosen.get("appearance", "none"))
    assert tried == [(0, "none"), *[(0, "exposure")] * (spread == 0.12 and not given), last]


def test_training_in_memory_takes_the_settings_of_its_trials_except_given_ones(large_scene, short_runs, monkeypatch):
    monkeypatch.setattr(trials, "choose", lambda *_: {"steps": 7, "dropout": 0.3})
    result = splat_cli.train_scene(large_scene, device="cpu", quiet=True, dropout=0.2, init="points")
    assert (result.steps, result.config.dropout) == (7, 0.2)


def test_without_memory_for_trials_the_defaults_are_kept(splat, large_scene, short_runs, monkeypatch):
    def fail(*arguments):
        raise MemoryError

    monkeypatch.setattr(trials, "evaluate", fail)
    shown = splat("train", large_scene, "-o", "run", *QUICK)
    assert shown.code == 0, shown.err
    assert "Warning: no trial runs: out of memory" in shown.err
    assert RunDir(Path("run")).config().steps == 24
    assert not RunDir(Path("run")).trials_path.exists()


def test_trials_leave_out_what_scores_them(large_scene, monkeypatch):
    """No trial trains on a photograph that scores it."""
    config = TrainConfig(eval=True)
    data = read_data(large_scene, config, open_backend("cpu"), Display(io.StringIO()))
    runner = trials._Runner(config, data, open_backend("cpu"), Display(io.StringIO()))
    trained, scored = ({view.name for view in one.views} for one in (runner.data.training, runner.left_out))
    assert not trained & scored
    assert trained | scored == {view.name for view in data.training.views}


@pytest.mark.parametrize("num_views", [30, 42])
def test_no_thread_measures_detail_beside_the_run(tmp_path, num_views, monkeypatch):
    """... if a trial runs out of memory. It is also measured with few photographs."""
    scene, threads = write_small_scene(tmp_path / "scene", num_views=num_views), []
    monkeypatch.setattr(trials, "fine_detail", lambda image: threads.append(threading.current_thread()))

    def fail(runner):
        assert len(list(runner.detail)) == trials.DETAILED
        raise MemoryError

    monkeypatch.setattr(trials._Runner, "run", fail)
    config, backend, display = TrainConfig(init="points"), open_backend("cpu"), Display(io.StringIO())
    choose_settings(config, read_data(scene, config, backend, display), backend, display)
    assert len(threads) == trials.DETAILED
    assert not any(thread.is_alive() for thread in threads)


def test_trials_leave_no_arrays(large_scene, short_runs, monkeypatch):
    """They would take the memory of the next trainer. Cycles keep them until they are collected."""
    build, models = trials.build_trainer_within_memory, []

    def built(*arguments):
        trainer = build(*arguments)
        models.append(weakref.ref(trainer.model))
        return trainer

    monkeypatch.setattr(trials, "build_trainer_within_memory", built)
    config, backend, display = TrainConfig(init="points"), open_backend("cpu"), Display(io.StringIO())
    data = read_data(large_scene, config, backend, display)
    gc.disable()
    try:
        trials.choose_settings(config, data, backend, display)
        assert [model() for model in models] == [None, None]
    finally:
        gc.enable()


def test_trials_do_not_influence_the_training(splat, tmp_path, short_runs, monkeypatch):
    """A run with the settings that trials chose has the same bits as one that was given them."""
    scene = write_small_scene(tmp_path / "large", num_views=50)  # trains in batches
    monkeypatch.setattr(trials, "choose", lambda *_: {"steps": 16})
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
        '{"trials": [], "chosen": {"steps": 8, "seed": 1}}',
        '{"trials": [], "chosen": {"steps": 8, "appearance": "none"}}',
        '{"trials": [{"steps": 8, "free_space": 0}], "chosen": {"steps": 8}}',
        '{"trials": [{"steps": 8, "free_space": 0, "psnr": 20, "appearance": 3}], "chosen": {"steps": 8}}',
        '{"trials": 3, "chosen": {"steps": 8}}',
    ],
)
def test_a_damaged_record_is_named(tmp_path, content):
    (tmp_path / "trials.json").write_text(content)
    with pytest.raises(FormatError, match=r"trials\.json is corrupt: expected `(trials|chosen)`"):
        RunDir(tmp_path).trials()
