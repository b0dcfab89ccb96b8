"""`splat info` on a folder of runs; the summary of splats."""

import json
import re
import shutil

import pytest

from splat_cli.commands.info import summarize_splats
from tests.gaussians.some_splats import some_splats


@pytest.fixture
def runs(trained, tmp_path):
    folder = tmp_path / "runs"
    for name in ("garden", "street", "broken"):
        shutil.copytree(trained, folder / name)
    (folder / "street" / "result.json").unlink()
    (folder / "broken" / "result.json").write_text("[]")
    (folder / "notes").mkdir()
    return folder


def test_runs_are_listed(splat, runs):
    result = splat("info", runs)
    assert result.code == 0, result.err
    lines = dict(line.split("  ", 1) for line in result.out.splitlines())
    assert list(lines) == ["runs", "broken", "garden", "street"]
    assert re.search(r"20 steps, [23]\d\d splats, ", lines["garden"])
    assert "PSNR" in lines["garden"]
    assert lines["street"].strip() == "not finished: splats of step 20 of 20"
    assert "result.json is corrupt" in lines["broken"]
    assert json.loads(splat("info", runs, "--json").out)["garden"].startswith("20 steps")


def test_a_scene_with_a_run_in_it_is_a_scene(splat, scene, trained, tmp_path):
    folder = shutil.copytree(scene, tmp_path / "scene")
    shutil.copytree(trained, folder / "run")
    assert splat("info", folder).out.startswith("scene")


def test_runs_one_folder_deeper_are_listed_with_their_relative_path(splat, trained, tmp_path):
    for path in ("batch/b", "batch/a", "c", "too/deep/d"):
        shutil.copytree(trained, tmp_path / "runs" / path)
    assert list(json.loads(splat("info", tmp_path / "runs", "--json").out)) == ["runs", "batch/a", "batch/b", "c"]


def test_a_run_without_saved_splats_is_at_step_0(splat, runs):
    shutil.rmtree(runs / "street" / "point_cloud")
    assert json.loads(splat("info", runs, "--json").out)["street"] == "not finished: splats of step 0 of 20"


@pytest.mark.parametrize("num", [0, 1, 50])
def test_summary_of_any_number_of_splats(num):
    assert summarize_splats(some_splats(num))["splats"] == str(num)


def test_summary_of_a_splat_larger_than_floats():
    splats = some_splats(3)
    splats.log_scales[:] = 1e6
    assert "inf" in summarize_splats(splats)["largest axis"]
