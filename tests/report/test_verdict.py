"""The report in words."""

import dataclasses
import html
import re
from datetime import datetime

import pytest

from splat_cli.config.presets import load_config
from splat_cli.eval.metrics import Score
from splat_cli.report.run_data import ComparedView, RunData
from splat_cli.report.verdict import badge, verdict
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.lens.distortion import Equirectangular
from tests.views import ring_of_views


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A good run on 50 photographs: 28 dB on all held-out views, 29 dB in training."""
    monkeypatch.setattr(RunDir, "views", lambda run, which: {"train": ring_of_views(50)}[which])
    return RunData(
        run=RunDir(tmp_path / "my run"),
        config=load_config(None, {"eval": True, "steps": 100}),
        provenance={"scene": "photos/garden"},
        figures=[
            {"step": 50, "psnr": 20.0, "seconds": 5.0},
            {"step": 95, "psnr": 29.0, "seconds": 9.5},
            {"step": 100, "psnr": 29.0, "seconds": 10.0},
        ],
        warnings=[],
        phases={"reading the scene": 4.0, "training": 10.0, "saving": 1.0},
        metrics={100: scores([28.0] * 8)},
        protocol="",
        trials={},
        step=100,
        when=datetime(2026, 1, 1),
    )


def scores(values, **others):
    per_image = {f"{i}.jpg": {"psnr": value} for i, value in enumerate(values)}
    return {"psnr": sum(values) / len(values), "per_image": per_image, **others}


def changed(data, **settings):
    return dataclasses.replace(data, config=dataclasses.replace(data.config, **settings))


def told(data, compared=()):
    """The text without markup."""
    return re.sub("<[^>]*>", "", verdict(data, {}, compared))


@pytest.mark.parametrize(
    ("psnr", "words"), [(31, "very good"), (28, "good: only"), (24, "fair"), (20, "poor"), (15, "bad")]
)
def test_grade(data, psnr, words):
    text = told(dataclasses.replace(data, metrics={100: scores([psnr] * 8)}))
    assert f"PSNR {psnr:.1f} dB over 8 photographs that training has not seen: {words}" in text
    text = told(dataclasses.replace(changed(data, downscale=4), metrics={100: scores([psnr] * 8)}))
    assert f"PSNR {psnr:.1f} dB over 8 photographs that training has not seen, at 1/4 of their size: {words}" in text
    text = told(dataclasses.replace(changed(data, max_size=800), metrics={100: scores([psnr] * 8)}))
    assert f"that training has not seen, at most 800 pixels wide or high: {words}" in text


@pytest.mark.parametrize(("saved", "psnr"), [((), 28), ((50,), 20), ((50, 100), 28), ((50, 100, 110), None)])
def test_scores_are_those_of_the_splats_that_are_shown(data, saved, psnr):
    """A finished run was continued, and interrupted: its last splats are later than its last scores."""
    for step in saved:
        data.run.ply_path(step).parent.mkdir(parents=True)
        data.run.ply_path(step).touch()
    data = dataclasses.replace(data, metrics={50: scores([20.0] * 8), **data.metrics})
    assert data.measured.get("psnr") == psnr


@pytest.mark.parametrize(
    ("psnr", "expected"),
    [(28, '<span class="badge good">PSNR 28.0 dB: good'), (24, '"badge">PSNR 24.0 dB: fair'), (20, 'bad">PSNR 20')],
)
def test_the_head_has_the_grade(data, psnr, expected):
    assert expected in badge(dataclasses.replace(data, metrics={100: scores([psnr] * 8)}))
    assert badge(dataclasses.replace(data, metrics={})) is None
    assert badge(changed(data, eval=False)) is None


def commands(data):
    """The commands of the last list, in order, with RUN for the folder of the run."""
    found = re.findall("<pre><code>(.*?)</code></pre>", verdict(data, {}))
    return [html.unescape(re.sub("<[^>]*>", "", command)).replace(f"'{data.run.path}'", "RUN") for command in found]


DELIVERY = ["splat export RUN 'my run.html'", "splat export RUN 'my run.ply'", "splat mesh RUN 'my run.glb'"]


@pytest.fixture
def long(data):
    """The good run with the default number of steps."""
    return dataclasses.replace(changed(data, steps=10_000), step=10_000, metrics={10_000: scores([28.0] * 8)})


def test_good_run_is_shared(long):
    text = told(long)
    assert "No view is far worse than others. The worst are 0.jpg (28.0 dB), 1.jpg (28.0 dB), 2.jpg (28.0 dB)." in text
    assert "far from their cameras, the scene is blurred" in text
    assert "Nothing needs to be corrected. Show the scene to others: send this file" in text
    assert "holds photographs, their names and folders of this machine" in text
    poor = told(dataclasses.replace(long, metrics={10_000: scores([19.0] * 8)}))
    assert "19.0 dB over 8 photographs that training has not seen: bad: shapes are wrong." in poor
    assert "No view is far worse than others: all are poor. The worst are 0.jpg (19.0 dB)" in poor
    assert commands(long) == DELIVERY


def test_poor_run_without_a_known_cause_needs_photographs(long):
    poor = dataclasses.replace(long, metrics={10_000: scores([21.0] * 8)}, figures=[])
    assert "this run.Take more photographs of what the worst views show" in told(poor)
    assert commands(poor) == DELIVERY


def test_more_splats_are_advised_for_many_photographs_only(long, monkeypatch):
    monkeypatch.setattr(RunDir, "views", lambda run, which: ring_of_views(300))
    many = dataclasses.replace(changed(long, steps=20_000), step=20_000)
    assert commands(many) == [*DELIVERY[:1], "splat train photos/garden --eval --preset quality", *DELIVERY[1:]]
    assert commands(changed(many, max_splats=3_000_000)) == DELIVERY


def test_short_run_is_trained_longer(data, long):
    assert "Train again: 100 steps are few, by default it has about 10,000. (about 17 min)" in told(data)
    assert commands(data) == ["splat train photos/garden --eval", *DELIVERY]
    assert "steps are few" not in told(long)
    assert "steps are few" not in told(dataclasses.replace(data, trials={"chosen": {}}))


def test_times_are_those_of_the_same_machine(data):
    """10 s of 100 steps on 1/16 of the pixels, and 5 s for all else."""
    small = changed(data, downscale=4)
    assert "Triangles for all other programs: (about 2 min)" in told(small)
    assert "(about 4 h)" in told(small)  # 100 times the steps on 16 times the pixels
    trained = dataclasses.replace(small, trials={"chosen": {}})
    assert "in full they show more detail. (about 3 min)" in told(trained)
    unfinished = dataclasses.replace(changed(data, steps=400), step=100)
    assert "Finish the training. (about 30 s)splat train --resume" in told(unfinished)


def test_a_new_run_keeps_settings_and_what_trials_chose(data):
    trained = changed(data, downscale=2, free_space=1.0, seed=7, images="pics", save_at=())
    trained = dataclasses.replace(trained, trials={"chosen": {"steps": 100, "free_space": 1.0}})
    [command, *_] = commands(trained)
    assert command.startswith("splat train photos/garden ")
    assert set(command.split()[3:]) == {"--eval", "--steps=100", "--free-space=1.0", "--seed=7", "--images=pics"}


@pytest.mark.parametrize(
    ("settings", "chosen", "expected"),
    [
        ({"batch": 4}, {}, ""),  # the default: it differs with --pose-opt
        ({"batch": 8}, {}, "--batch=8 "),
        ({"batch": 4}, {"batch": 4}, "--steps=10000 --batch=4 "),
        ({"batch": 4, "gpus": 2}, {}, ""),  # refused with --pose-opt
        ({"pose_opt": True}, {}, "--pose-opt --robust"),
        ({"robust": True}, {}, "--robust --pose-opt"),
        ({"pose_opt": True, "robust": True}, {}, None),
    ],
)
def test_a_new_run_against_bad_views_is_another_one(long, settings, chosen, expected):
    bad = dataclasses.replace(changed(long, **settings), metrics={10_000: scores([12, *[28.0] * 7])})
    [*found] = commands(dataclasses.replace(bad, trials={"chosen": chosen} if chosen else {}))[: -len(DELIVERY)]
    if expected is None:
        assert not found
        assert "its pose is wrong: estimate poses anew with splat sfm. If it is blurred" in told(bad)
        return
    words = [*expected.split(), *([] if "--pose-opt" in expected else ["--pose-opt"]), "--eval"]
    assert [sorted(command.split()[3:]) for command in found] == [sorted(words)]


def test_worst_views_are_links_into_the_scene(data):
    page = verdict(dataclasses.replace(data, metrics={100: scores([28, 12, 29, 23.9, 28, 28])}), {"1.jpg": 7})
    assert "2 of 6 views are over 4 dB worse than the median of 28.0 dB" in page
    assert '<a href="#stage" data-view="7">1.jpg (12.0 dB)</a>, 3.jpg (23.9 dB).' in page
    assert '<code><span class="option">--pose-opt</span></code>' in page
    assert "1 of 6 views is over" in told(dataclasses.replace(data, metrics={100: scores([28, 12, 29, 28, 28, 28])}))


@pytest.mark.parametrize(
    ("measured", "failure", "command"),
    [
        ({"hidden_points": 0.08}, "hide 8.0 % of the points", "splat clean RUN"),
        (
            {"fitted_psnr": 29.5},
            "with fitted colours, it has 29.5 dB",
            "splat train photos/garden --eval --appearance=exposure",
        ),
    ],
)
def test_failures_of_the_whole_scene(long, measured, failure, command):
    failing = dataclasses.replace(long, metrics={10_000: scores([28] * 8, **measured)})
    assert failure in told(failing)
    assert "No view is far worse than others" in told(failing)
    assert "Nothing needs to be corrected" not in told(failing)
    assert commands(failing) == [command, *DELIVERY]


@pytest.mark.parametrize(
    ("hidden", "words"),
    [
        (0.08, "are floaters: splats in empty space hide 8.0 %"),
        (0.012, "few floaters: splats in empty space hide 1.2 %"),
    ],
)
def test_floaters_are_shown_by_a_command(long, hidden, words):
    text = told(dataclasses.replace(long, metrics={10_000: scores([28] * 8, hidden_points=hidden)}))
    assert words in text
    assert "--preview &#x27;my run-floaters.html&#x27; writes a page that shows them in magenta" in text
    views = [
        ComparedView(view, Score(28, 0.9), "", "", "", 0, 0, share)
        for view, share in zip(ring_of_views(4), (0.001, 0.3, None, 0.5), strict=True)
    ]
    found = verdict(
        dataclasses.replace(long, metrics={10_000: scores([28] * 8, hidden_points=0.08)}), {"a_03.jpg": 5}, views
    )
    assert 'behind them, most in <a href="#stage" data-view="5">a_03.jpg (50 %)</a>, a_01.jpg (30 %). <code>' in found
    none = dataclasses.replace(long, metrics={10_000: scores([28] * 8, hidden_points=0)})
    assert "There are no floaters" in told(none)
    assert "--preview" not in told(none)


def test_overfitting(data, long):
    text = told(dataclasses.replace(data, metrics={100: scores([24] * 8)}))
    assert "Photographs that it was trained on are much better, 29.0 dB: it overfits." in text
    figures = [{"step": 10_000, "psnr": 29.0, "seconds": 10.0}]
    overfitted = dataclasses.replace(long, metrics={10_000: scores([24] * 8)}, figures=figures)
    assert commands(overfitted) == ["splat train photos/garden --eval --steps=5000 --free-space=1.0", *DELIVERY]
    tried = dataclasses.replace(overfitted, trials={"chosen": {}})
    assert commands(tried) == DELIVERY
    assert "this run.Take more photographs against overfitting." in told(tried)


def test_spherical_photographs_allow_no_penalty_in_empty_space(long, monkeypatch):
    spheres = [dataclasses.replace(view, distortion=Equirectangular()) for view in ring_of_views(50)]
    monkeypatch.setattr(RunDir, "views", lambda run, which: spheres)
    figures = [{"step": 10_000, "psnr": 29.0, "seconds": 10.0}]
    overfitted = dataclasses.replace(long, metrics={10_000: scores([24] * 8, hidden_points=0.08)}, figures=figures)
    assert commands(overfitted)[0] == "splat train photos/garden --eval --steps=5000"
    assert "--free-space" not in told(overfitted)


def test_advice_against_floaters_is_not_what_was_trained_with(data):
    few = dataclasses.replace(data, metrics={100: scores([28] * 8, hidden_points=0.08)})
    assert "If they come back, train with --free-space 0.1." in told(few)
    assert "If they come back" not in told(changed(few, free_space=1.0))


def test_steps_are_in_the_order_of_what_they_gain(data):
    bad = scores([12, *[28.0] * 7], hidden_points=0.08)
    failing = dataclasses.replace(changed(data, downscale=2, steps=200), metrics={100: bad})
    again = "splat train photos/garden --steps=200 --eval"
    assert commands(failing) == ["splat train --resume RUN", again, "splat clean RUN", f"{again} --pose-opt", *DELIVERY]
    text = told(failing)
    assert text.index("Finish the training") < text.index("Train again") < text.index("Remove floaters")


@pytest.mark.parametrize(
    ("psnr", "training", "steps", "is_told"),
    [(19, 22, 10_000, True), (19, 25, 10_000, False), (23, 22, 10_000, False), (19, 22, 4000, False)],
)
def test_photographs_that_contradict_each_other(data, psnr, training, steps, is_told):
    """Not after a few steps, when all photographs look wrong."""
    run = dataclasses.replace(
        changed(data, downscale=4, steps=steps),
        step=steps,
        metrics={steps: scores([psnr - 7, *[psnr + 1] * 7])},
        figures=[{"step": steps, "psnr": training, "seconds": 10.0}],
    )
    text = told(run)
    assert (f"trained on look wrong, too, {training}.0 dB" in text) == is_told
    poses = text.find("splat sfm PHOTOS -o photos/garden-sfm &amp;&amp; splat train photos/garden-sfm --eval")
    assert (0 < poses < text.index("Click on the worst views")) == is_told  # what matters more comes first
    assert f"trained on look wrong, too, {training}.0 dB" not in told(dataclasses.replace(run, step=steps - 1))


def test_without_held_out_views(data):
    data = dataclasses.replace(changed(data, eval=False), metrics={})
    views = [ComparedView(view, Score(28 - i, 0.9), "", "", "", 0, 0) for i, view in enumerate(ring_of_views(4))]
    assert "No view compared below is far worse than others. The worst are a_03.jpg (25.0 dB), a_02.jpg" in told(
        data, views
    )
    text = told(data)
    assert "Where it fails" not in text
    assert "Photographs that it was trained on have a PSNR of 29.0 dB." in text
    assert "PSNR compares renders with photographs. Renders of 30 dB" in text
    assert "how much worse was not measured" in text
    assert "Train again: --eval holds every 8th photograph out, to measure new views; 100 steps are few" in text
    assert commands(data) == ["splat train photos/garden --eval", *DELIVERY]
