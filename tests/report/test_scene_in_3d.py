"""The scene in 3D of a report: its size, and the photographs to walk among; scores of compared views."""

import base64
import dataclasses
import io
import re

import numpy as np
import pytest
from PIL import Image

from splat_cli.eval.metrics import psnr
from splat_cli.gaussians.formats.sog import write_sog
from splat_cli.gaussians.ply import read_ply
from splat_cli.gaussians.splats import Splats
from splat_cli.report import write
from splat_cli.report.page import comparison
from splat_cli.report.run_data import compare_views, read_run_data
from splat_cli.report.scene_in_3d import _fitting, scene_in_3d, stops_of
from splat_cli.report.write import write_report
from splat_cli.run.storage import load_run
from splat_cli.run.storage.load_run import read_run_scene
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.terminal.console import Display, Level
from tests.gaussians.some_splats import some_splats


@pytest.fixture
def data(trained):
    return read_run_data(RunDir(trained))


def decoded(address):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))))


def is_photograph(address, data, view):
    """Photographs of neighbours are 27 dB apart."""
    return psnr(decoded(address), np.asarray(Image.open(data.run.scene_path() / "images" / view.name))) > 30


def test_photographs_are_in_order_with_scores(data, backend):
    stops = stops_of(data, [], None, backend)
    names = [stop.view.name for stop in stops]
    assert names == sorted(names)
    assert names[0] == "a_00.jpg"
    assert stops[0].note.startswith("held out, PSNR ")
    assert stops[1].note == "trained on"
    assert all(is_photograph(stop.photograph, data, stop.view) for stop in stops)


def test_all_cameras_can_be_visited_and_a_few_have_photographs(data, backend, monkeypatch, tmp_path):
    monkeypatch.setattr("splat_cli.report.scene_in_3d.NUM_STOPS", 2)
    stops = stops_of(data, [], None, backend)
    assert [stop.view.name for stop in stops] == [view.name for view in data.run.views("all")]
    assert 2 <= sum(stop.photograph is not None for stop in stops) <= 3 < len(stops)
    assert len(stops_of(data, [], tmp_path / "gone", backend)) <= 3


def test_compared_views_have_their_pictures_and_measured_flip(data, backend):
    step = max(data.metrics)
    measured = {name: dict(score) for name, score in data.measured["per_image"].items()}
    worst = min(measured, key=lambda name: measured[name]["psnr"])
    measured[worst]["flip"] = 0.123
    data = dataclasses.replace(data, metrics={step: {**data.metrics[step], "per_image": measured}})
    splats = Splats.from_arrays(backend, read_ply(data.run.ply_path(step)))
    views = compare_views(data, splats, None, backend, None, Display(level=Level.QUIET))
    assert {view.hidden for view in views} == {None}
    read = read_run_scene(data.run, None)
    views = compare_views(data, splats, None, backend, read, Display(level=Level.QUIET))
    assert all(0 <= view.hidden <= 1 for view in views)
    assert np.mean([view.hidden for view in views]) == pytest.approx(data.measured["hidden_points"], abs=0.1)
    assert [view.score.flip for view in views] == [0.123, *[None] * (len(measured) - 1)]
    assert comparison(views).count("FLIP 0.123") == comparison(views).count("FLIP") == 1
    for view in views:
        assert is_photograph(view.photograph, data, view.view)
        assert psnr(decoded(view.render), decoded(view.photograph)) == pytest.approx(view.score.psnr, abs=1)
        assert not is_photograph(view.error, data, view.view)


def test_missing_photographs_are_left_out(data, backend, tmp_path):
    assert {stop.photograph for stop in stops_of(data, [], tmp_path / "gone", backend)} == {None}


def test_large_scenes_are_shown_with_fewer_splats(data, backend):
    splats, stops = some_splats(8000), stops_of(data, [], None, backend)
    whole = scene_in_3d(data, splats, stops, backend, 12e6)
    assert "splats that contribute most" not in whole
    viewer = len(whole) - len(whole.partition('id="splats">')[2].partition("</script>")[0])
    most = viewer + 140_000
    part = scene_in_3d(data, splats, stops, backend, most)
    assert "of 8,000 splats that contribute most" in part
    assert 15 < float(re.search(r"have (\d+) dB", part)[1]) < 99
    assert 0.95 * most < len(part) <= most
    assert scene_in_3d(data, splats, stops, backend, viewer + 20_000) is None


def test_colours_become_coarser_before_splats_are_left_out():
    splats = some_splats(3000)
    assert _fitting(1e6, splats)[0] == 3000
    assert [_fitting(room, splats)[0] for room in (70_000, 62_000)] == [3000, 3000]
    assert _fitting(70_000, splats)[1] > _fitting(62_000, splats)[1] > 40
    count, entries = _fitting(30_000, splats)
    assert 1000 < count < 2000
    assert entries == count // 64


@pytest.mark.parametrize("entries", [4096, 512])
def test_expected_size_is_near(tmp_path, entries):
    """The splats are spread like those of a scene, not at random."""
    splats = some_splats(20_000)
    splats.means[:] = np.cumsum(splats.means, axis=0) / 20
    write_sog(tmp_path / "a.sog", splats, entries)
    room = (tmp_path / "a.sog").stat().st_size * 4 / 3
    assert _fitting(room * 1.15, splats)[0] == 20_000


def test_a_page_reads_the_scene_once(data, backend, monkeypatch, tmp_path):
    """Reading a large scene takes a second."""
    read = []
    for module in (write, load_run):
        monkeypatch.setattr(module, "read_run_scene", lambda *arguments: read.append(1) or read_run_scene(*arguments))
    path = write_report(data.run, backend, Display(level=Level.QUIET), path=tmp_path / "page.html")
    assert (len(read), path.read_text().count("data:image/jpeg") > 3) == (1, True)
