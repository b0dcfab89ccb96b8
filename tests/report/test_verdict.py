"""The report in words."""

import dataclasses
import re
from datetime import datetime

import pytest

from splat_cli.config.presets import load_config
from splat_cli.eval.metrics import Score
from splat_cli.report.run_data import ComparedView, RunData
from splat_cli.report.verdict import badge, verdict
from splat_cli.run.storage.run_dir import RunDir
from tests.views import ring_of_views


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A good run on 50 photographs: 28 dB on all held-out views, 29 dB in training."""
    monkeypatch.setattr(RunDir, "views", lambda run, which: {"train": [None] * 50}[which])
    return RunData(
        run=RunDir(tmp_path / "my run"),
        config=load_config(None, {"eval": True, "steps": 100}),
        provenance={"scene": "photos/garden"},
        figures=[{"step": 50, "psnr": 20.0}, {"step": 95, "psnr": 29.0}, {"step": 100, "psnr": 29.0}],
        warnings=[],
        phases={},
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


def test_good_run_is_shared(data):
    text = told(data)
    assert "No view falls far behind. The worst are 0.jpg (28.0 dB), 1.jpg (28.0 dB), 2.jpg (28.0 dB)." in text
    assert "far from their cameras, the scene is blurred" in text
    assert "quality.Add such options, several at once if you like, to splat train photos/garden --eval.Show" in text
    assert "my run&#x27; &#x27;my run.html&#x27;.Open" in text
    assert "my run&#x27; &#x27;my run.ply&#x27; writes splats" in text
    assert "my run&#x27; &#x27;my run.glb&#x27; writes triangles" in text
    assert not re.search("--resume|--eval holds|--pose-opt|--free-space|--appearance|--downscale", text)


def test_short_run_is_trained_longer(data):
    advice = "steps are few"
    assert advice in told(data)
    assert advice not in told(dataclasses.replace(changed(data, steps=5000), step=5000))
    assert advice not in told(dataclasses.replace(data, trials={"chosen": {}}))
    assert advice not in told(dataclasses.replace(data, metrics={100: scores([24] * 8)}))  # it overfits


def test_worst_views_are_links_into_the_scene(data):
    page = verdict(dataclasses.replace(data, metrics={100: scores([28, 12, 29, 23.9, 28, 28])}), {"1.jpg": 7})
    assert "2 of 6 views are over 4 dB worse than the median of 28.0 dB" in page
    assert '<a href="#stage" data-view="7">1.jpg (12.0 dB)</a>, 3.jpg (23.9 dB).' in page
    assert '<code class="option">--pose-opt</code>' in page
    assert "1 of 6 views is over" in told(dataclasses.replace(data, metrics={100: scores([28, 12, 29, 28, 28, 28])}))


@pytest.mark.parametrize(
    ("measured", "failure", "advice"),
    [
        ({"hidden_points": 0.08}, "hide 8% of the points", "--free-space 0.1"),
        ({"fitted_psnr": 29.5}, "with fitted colours, it has 29.5 dB", "--appearance exposure"),
    ],
)
def test_failures_of_the_whole_scene(data, measured, failure, advice):
    text = told(dataclasses.replace(data, metrics={100: scores([28] * 8, **measured)}))
    assert failure in text
    assert advice in text
    assert "No view falls far behind" in text
    assert "--preset quality" not in text


@pytest.mark.parametrize(
    ("trials", "advice"),
    [
        ({}, "try half the steps, --steps 50, and --free-space 1."),
        ({"chosen": {}}, "Trial runs have already tried"),
    ],
)
def test_overfitting(data, trials, advice):
    text = told(dataclasses.replace(data, metrics={100: scores([24] * 8)}, trials=trials))
    assert "Photographs that it was trained on are much better, 29.0 dB: it overfits." in text
    assert advice in text


def test_advice_against_floaters_is_not_what_was_trained_with(data):
    data = dataclasses.replace(changed(data, free_space=1.0), metrics={100: scores([28] * 8, hidden_points=0.08)})
    assert "Remove floaters with splat clean" in told(data)
    assert "--free-space" not in told(data)


@pytest.mark.parametrize(("psnr", "training", "is_told"), [(19, 22, True), (19, 25, False), (23, 22, False)])
def test_photographs_that_contradict_each_other(data, psnr, training, is_told):
    figures = [{"step": 100, "psnr": training}]
    text = told(
        dataclasses.replace(
            changed(data, downscale=4), metrics={100: scores([psnr - 7, *[psnr + 1] * 7])}, figures=figures
        )
    )
    assert (f"trained on look wrong, too: {training}.0 dB" in text) == is_told
    poses = text.find("estimate new ones with splat sfm PHOTOS -o SCENE, and train SCENE")
    assert (0 < poses < text.index("Click on the worst views")) == is_told  # what matters more comes first


def test_without_held_out_views(data):
    data = dataclasses.replace(changed(data, eval=False), metrics={})
    views = [ComparedView(view, Score(28 - i, 0.9), "", "", "", 0, 0) for i, view in enumerate(ring_of_views(4))]
    assert "No view compared below falls far behind. The worst are a_03.jpg (25.0 dB), a_02.jpg" in told(data, views)
    text = told(data)
    assert "Where it fails" not in text
    assert "Photographs that it was trained on have a PSNR of 29.0 dB." in text
    assert "PSNR compares renders with photographs. Renders of 30 dB" in text
    assert "how much worse was not measured" in text
    assert "splat train photos/garden --eval holds every 8th photograph out" in text


def test_unfinished_run_of_small_photographs(data):
    text = told(dataclasses.replace(changed(data, downscale=4), step=60))
    assert "Finish the training: splat train --resume" in text
    assert "photographs had 1/4 of their size" in text
