"""The scene in 3D of a report: its size, and the photographs to walk among."""

import re

import numpy as np
import pytest

from splat_cli.gaussians.formats.sog import write_sog
from splat_cli.report.run_data import read_run_data
from splat_cli.report.scene_in_3d import _fitting, scene_in_3d, stops_of
from splat_cli.run.storage.run_dir import RunDir
from tests.gaussians.some_splats import some_splats


@pytest.fixture
def data(trained):
    return read_run_data(RunDir(trained))


def test_photographs_are_in_order_with_scores(data, backend):
    stops = stops_of(data, [], None, backend)
    names = [stop.view.name for stop in stops]
    assert names == sorted(names)
    assert names[0] == "a_00.jpg"
    assert stops[0].note.startswith("held out, PSNR ")
    assert stops[1].note == "trained on"
    assert all(stop.photograph.startswith("data:image/jpeg") for stop in stops)


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
    """Of splats like those of a scene, which are not spread at random."""
    splats = some_splats(20_000)
    splats.means[:] = np.cumsum(splats.means, axis=0) / 20
    write_sog(tmp_path / "a.sog", splats, entries)
    room = (tmp_path / "a.sog").stat().st_size * 4 / 3
    assert _fitting(room * 1.15, splats)[0] == 20_000
