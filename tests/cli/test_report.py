"""report.html: written by train and by report, self-contained, also for interrupted runs."""

import json
import re
import shutil
from html.parser import HTMLParser

import pytest

from splat_cli.config.presets import load_config
from splat_cli.report import write
from splat_cli.run.storage.run_dir import RunDir

VOID = {"br", "img", "input", "meta"}


class _Page(HTMLParser):
    """Headings, and targets of pictures and links; asserts that every element is closed."""

    def __init__(self, path):
        super().__init__()
        self.headings, self.sources, self.open = [], [], []
        self.source = path.read_text()
        self.feed(self.source)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.sources += [value for name, value in attributes if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data)


@pytest.fixture
def run_copy(trained, tmp_path):
    return RunDir(shutil.copytree(trained, tmp_path / "run"))


def test_train_writes_the_report(trained):
    page = _Page(trained / "report.html")
    assert page.headings == [
        "toy",
        "How good it is",
        "Where it fails",
        "What to do next",
        "Renders and photographs",
        "Scores",
        "Warnings (1)",
        "Training",
        "Cameras from above",
        "Settings",
        "Splats",
        "Time by phase",
    ]
    assert page.source.count('<details class="fold"><summary><h2>') == 8
    assert page.source.index('id="stage"') < page.source.index("How good it is")
    assert page.source.count('class="stage"') == 3
    assert all(name in page.source for name in ("a_00.jpg", "a_03.jpg", "a_06.jpg", "worst", "best"))
    places = [page.source.index(text) for text in ("--test-every", "settings with default values", "--lr-means")]
    assert places == sorted(places)


def test_the_protocol_is_a_list_without_keys_of_metrics_json(splat, run_copy):
    metrics = run_copy.metrics()
    assert "`hidden_points`" in metrics["protocol"]
    metrics["protocol"] += "; `fitted_`: over the right half"
    run_copy.save_metrics(metrics)
    assert splat("report", run_copy.path, "--device", "cpu").code == 0
    listed = run_copy.report_path.read_text().partition("<summary>Evaluation protocol</summary>")[2]
    assert listed.startswith("<ul><li>images sorted by name, numbers 0, 3, 6, ...")
    assert "<li>points hidden by floaters: " in listed
    assert "<li>colours fitted: over the right half" in listed
    assert "`" not in listed


def test_report_is_self_contained(trained):
    page = _Page(trained / "report.html")
    assert len([source for source in page.sources if source.startswith("data:image/")]) == 3 * 3 + 1
    assert all(source.startswith(("data:image/", "#")) for source in page.sources)
    own = re.sub("<!--.*?-->|<style>.*?</style>", "", page.source, flags=re.DOTALL)  # licences; the viewer's style
    assert not re.search(r"https?://|@import|url\(", own)
    assert "default-src 'none'" in page.source
    assert "prefers-color-scheme: dark" in page.source


def test_no_report_option(splat, scene, tmp_path):
    """Nor does that of an earlier end stay, as if it were of the run that went on."""
    for steps, options in ((2, [scene, "-o"]), (3, ["--resume"])):
        result = splat("train", *options, tmp_path / "run", "--device", "cpu", "--steps", steps, "--no-report")
        assert result.code == 0, result.err
        assert not RunDir(tmp_path / "run").report_path.exists()
        assert "Report" not in result.out
        RunDir(tmp_path / "run").report_path.touch()


def test_failed_report_is_a_warning(splat, scene, tmp_path, monkeypatch):
    monkeypatch.setattr(write, "page", lambda *arguments: 1 / 0)
    result = splat("train", scene, "--device", "cpu", "--steps", 2, "-o", tmp_path / "run")
    assert result.code == 0
    assert "Warning: no report was written (division by zero); `splat report " in result.err
    assert RunDir(tmp_path / "run").result()["steps"] == 2


def test_report_command_writes_it_to_another_file(splat, run_copy, tmp_path):
    result = splat("report", run_copy.path, "-o", tmp_path / "other.html", "--device", "cpu")
    assert result.code == 0, result.err
    assert _Page(tmp_path / "other.html").headings == _Page(run_copy.report_path).headings


def test_report_of_a_run_killed_early(splat, run_copy):
    """A run without splats and scores, with half a line in the log."""
    shutil.rmtree(run_copy.path / "point_cloud")
    run_copy.metrics_path.unlink()
    run_copy.log.path.write_text('{"step": 3, "warning": "<b> & so on"}\n{"step": 4, "lo')
    result = splat("report", run_copy.path, "--device", "cpu")
    assert result.code == 0, result.err
    page = _Page(run_copy.report_path)
    assert page.headings == ["toy", "How good it is", "What to do next", "Scores", "Warnings (1)", "Settings"]
    assert 'splat train <span class="option">--resume</span>' in page.source
    assert "not finished: 3 of 20 steps" in page.source
    assert "&lt;b&gt; &amp; so on" in page.source


def test_report_of_a_run_without_scores(splat, run_copy):
    run_copy.metrics_path.unlink()
    assert splat("report", run_copy.path, "--device", "cpu").code == 0
    source = _Page(run_copy.report_path).source
    assert "Held-out views. Drag" in source
    assert source.count('class="stage"') == 3
    assert "PSNR, held out" not in source


def test_report_without_held_out_views_shows_training_views(splat, scene, tmp_path):
    result = splat("train", scene, "--device", "cpu", "--steps", 2, "-o", tmp_path / "run")
    assert result.code == 0, result.err
    page = _Page(tmp_path / "run" / "report.html")
    assert page.source.count('class="stage"') == 8
    assert "Training views (--eval holds views out)" in page.source
    assert "compared below" in page.source


def test_scores_of_training_views_are_labelled(splat, run_copy):
    run_copy.save_config(load_config(None, {"test_every": 3}), run_copy.scene_path(), "CPU")
    assert splat("report", run_copy.path, "--device", "cpu").code == 0
    source = run_copy.report_path.read_text()
    assert "PSNR, trained on" in source
    assert "Training views (--eval holds views out)" in source
    assert "held out</" not in source


def test_report_without_photographs(splat, run_copy, tmp_path):
    run_copy.save_config(run_copy.config(), tmp_path / "gone", "CPU")
    result = splat("report", run_copy.path, "--device", "cpu")
    assert result.code == 0
    assert "Warning: the report has no pictures: " in result.err
    assert "Renders and photographs" not in _Page(run_copy.report_path).headings


def test_size_of_the_report(splat, run_copy):
    """The scene in 3D is left out with 0, and where its viewer alone would be too large."""
    sizes = {}
    for size in (None, 2, 0.5, 0):
        options = [] if size is None else ["--size", size]
        result = splat("report", run_copy.path, *options, "--device", "cpu", "--json")
        assert result.code == 0, result.err
        sizes[size] = json.loads(result.out)["bytes"]
        assert ('id="stage"' in run_copy.report_path.read_text()) is (size in (None, 2))
    assert sizes[0] == sizes[0.5] < 0.5e6 < sizes[2] == sizes[None] < 2e6


def test_missing_scene_option_is_refused(splat, run_copy, tmp_path):
    before = run_copy.report_path.read_bytes()
    result = splat("report", run_copy.path, "--scene", tmp_path / "gone", "--device", "cpu")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert run_copy.report_path.read_bytes() == before


def test_report_needs_a_run(splat, tmp_path):
    assert splat("report", tmp_path).code == 2


def test_files_of_a_run_are_not_replaced_by_a_report(splat, run_copy):
    before = run_copy.result_path.read_bytes()
    result = splat("report", run_copy.path, "-o", run_copy.result_path, "--device", "cpu")
    assert result.code == 2
    assert "is not a page of splat" in result.err
    assert run_copy.result_path.read_bytes() == before
