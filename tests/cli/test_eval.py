"""`splat eval`: scores and pictures of held-out views."""

import errno
import io
import json
import re
import shutil
import threading

import numpy as np
import pytest
from PIL import Image

from splat_cli.config.presets import load_config
from splat_cli.io.files import write_error
from splat_cli.io.folder_lock import locked_file
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.terminal.console import Display
from splat_cli.viewer.splat_source import open_source

USES = [  # of the splats of a run
    ["render", "--device", "cpu", "-o", "pictures"],
    ["clean", "--device", "cpu", "-o", "cleaned.ply"],
    ["export", "exported.ply"],
]


def test_scores_are_those_of_training(splat, run_copy):
    before = RunDir(run_copy).metrics()
    result = splat("eval", run_copy, "--device", "cpu")
    assert result.code == 0, result.err
    title, *rows = result.out.split("\n\n")[0].splitlines()
    assert [row.split()[0] for row in rows] == ["a_00.jpg", "a_03.jpg", "a_06.jpg", "mean"]
    assert {len(row) for row in rows} == {len(title)}
    after = RunDir(run_copy).metrics()
    assert after["steps"]["20"]["psnr"] == pytest.approx(before["steps"]["20"]["psnr"], abs=0.01)
    assert after["steps"]["20"]["seconds"] == before["steps"]["20"]["seconds"]


def test_scores_that_training_adds_meanwhile_are_kept(splat, run_copy, monkeypatch):
    """Training writes step 30 when `splat eval` has read metrics.json and is about to write it."""
    run, save = RunDir(run_copy), RunDir.save_metrics
    before = run.metrics()

    def train():
        with locked_file(run.metrics_path):
            metrics = run.metrics()
            metrics["steps"]["30"] = metrics["steps"]["20"]
            save(run, metrics)

    training = threading.Thread(target=train)

    def save_late(self, metrics):
        training.start()
        training.join(0.2)
        save(self, metrics)

    monkeypatch.setattr(RunDir, "save_metrics", save_late)
    assert splat("eval", run_copy, "--device", "cpu").code == 0
    training.join()
    assert run.metrics()["steps"].keys() == {*before["steps"], "30"}


def test_scores_are_printed_if_they_cannot_be_written(splat, run_copy):
    """For example, in the folder of another user's run."""
    path = RunDir(run_copy).metrics_path
    path.unlink()

    def refuse(self, metrics):
        raise write_error(path, PermissionError(errno.EACCES, "Permission denied"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunDir, "save_metrics", refuse)
        result = splat("eval", run_copy, "--device", "cpu")
        as_json = splat("eval", run_copy, "--device", "cpu", "--json")
    assert (result.code, as_json.code) == (2, 2)
    assert "a_03.jpg" in result.out
    assert "mean" in result.out
    assert "Written to" not in result.out
    assert f"the scores are printed only: {path} cannot be written: Permission denied" in result.err
    assert json.loads(as_json.out)["path"] is None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("pose_opt", "true", "camera poses"),
        ("background", '"learned"', "background"),
        ("appearance", '"camera"', "camera responses"),
    ],
)
def test_scores_with_poses_or_background_of_a_later_step_are_not_recorded(splat, backend, run_copy, name, value, words):
    """A run keeps them for its last step only."""
    run = RunDir(run_copy)
    run.config_path.write_text(re.sub(f"(?m)^{name} = .*", f"{name} = {value}", run.config_path.read_text()))
    run.save_background((0.1, 0.2, 0.3))
    run.save_responses({})
    metrics = run.metrics()
    result = splat("eval", run.ply_path(10), "--device", "cpu")
    assert result.code == 0, result.err
    assert f"with the {words} of step 20: they are printed only" in result.err
    assert run.metrics() == metrics
    for source in (run.ply_path(10), run_copy):
        for command, *arguments in USES:
            used = splat(command, source, *arguments)
            assert used.code == 0, used.err
            assert (f"is used with the {words} of step 20" in used.err) == (source != run_copy)
        open_source(source, backend, display := Display(io.StringIO()))  # as `splat view` does
        assert any(f"is used with the {words} of step 20" in line for line in display.warnings) == (source != run_copy)


@pytest.mark.parametrize(("before", "after"), [("test_every = 3", "test_every = 2"), ("eval = true", "eval = false")])
def test_an_edited_choice_of_held_out_photographs_is_refused(splat, run_copy, before, after):
    """Photographs that the run was trained on were scored as held out."""
    path = RunDir(run_copy).config_path
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    result = splat("eval", run_copy, "--device", "cpu")
    assert (result.code, "eval or test_every was edited since the run began: restore them" in result.err) == (2, True)


def test_photographs_that_changed_since_training_are_named(splat, run_copy, scene, tmp_path, backend):
    other = shutil.copytree(scene, tmp_path / "other")
    assert "is not what" not in splat("eval", run_copy, "--scene", other, "--device", "cpu").err
    shutil.copy(scene / "images" / "a_04.jpg", other / "images" / "a_03.jpg")
    metrics = RunDir(run_copy).metrics()
    result = splat("eval", run_copy, "--scene", other, "--device", "cpu")
    assert result.code == 0
    assert f"{other} is not what {run_copy} was trained on (a_03.jpg has another photograph)" in result.err
    assert "the scores are for other photographs: they are printed only" in result.err
    config = RunDir(run_copy).config_path
    config.write_text(config.read_text().replace(str(scene), str(other)))
    open_source(run_copy, backend, display := Display(io.StringIO()))
    assert "(a_03.jpg has another photograph): it is compared with other photographs" in display.warnings[0]
    (other / "images" / "a_03.jpg").unlink()
    result = splat("eval", run_copy, "--scene", other, "--device", "cpu")
    assert result.code == 0
    assert "the scores are without a_03.jpg: they are printed only" in result.err
    assert RunDir(run_copy).metrics() == metrics


def test_saved_pictures_are_side_by_side(splat, run_copy, tmp_path):
    result = splat("eval", run_copy, "--device", "cpu", "--save-pictures", tmp_path / "pictures")
    assert result.code == 0, result.err
    pictures = sorted((tmp_path / "pictures").iterdir())
    assert [picture.name for picture in pictures] == ["a_00.png", "a_03.png", "a_06.png"]
    with Image.open(pictures[0]) as image:
        picture = np.asarray(image)
    assert picture.shape == (30, 3 * 40 + 16, 3)
    with Image.open(RunDir(run_copy).scene_path() / "images" / "a_00.jpg") as photograph:
        np.testing.assert_array_equal(picture[:, :40], np.asarray(photograph.convert("RGB")))


@pytest.mark.parametrize("installed", [False, True])
def test_flip_is_computed_if_it_is_installed(splat, run_copy, monkeypatch, installed):
    monkeypatch.setattr("splat_cli.eval.metrics.has_flip", lambda: installed)
    monkeypatch.setattr("splat_cli.eval.evaluate.flip", lambda *pictures: 0.125)
    result = splat("eval", run_copy, "--device", "cpu")
    assert ("  0.1250" in result.out) is installed
    assert (RunDir(run_copy).metrics()["steps"]["20"].get("flip") == 0.125) is installed


def test_lpips_is_computed_on_demand(splat, run_copy, monkeypatch):
    networks = []
    monkeypatch.setattr("splat_cli.commands.evaluate.Lpips", lambda network: networks.append(network) or _Distance())
    result = splat("eval", run_copy, "--lpips", "--device", "cpu")
    assert result.code == 0, result.err
    assert "LPIPS" in result.out.splitlines()[0]
    assert "  0.2500" in result.out
    assert RunDir(run_copy).metrics()["steps"]["20"]["lpips"] == 0.25
    assert "network vgg, input from -1 to 1" in RunDir(run_copy).metrics()["protocol"]
    assert "network alex" in splat("eval", run_copy, "--lpips", "alex", "--device", "cpu", "--json").out
    assert networks == ["vgg", "alex"]
    assert splat("eval", run_copy, "--lpips", "resnet").code == 2


class _Distance:
    def score(self, render, photograph, mask):
        return 0.25


def test_an_earlier_step(splat, run_copy):
    result = splat("eval", RunDir(run_copy).ply_path(10), "--device", "cpu")
    assert result.code == 0, result.err
    assert "After step 10, on photographs held out from training" in result.out


def test_a_scene_elsewhere(splat, run_copy, scene, tmp_path):
    moved = shutil.copytree(scene, tmp_path / "moved")
    RunDir(run_copy).save_config(RunDir(run_copy).config(), tmp_path / "gone", "CPU")
    assert splat("eval", run_copy, "--device", "cpu").code == 2
    assert splat("eval", run_copy, "--scene", moved, "--device", "cpu").code == 0


def test_run_without_held_out_photographs_is_refused(splat, run_copy):
    RunDir(run_copy).save_config(load_config(None, {"test_every": 3}), RunDir(run_copy).scene_path(), "CPU")
    result = splat("eval", run_copy, "--device", "cpu")
    assert result.code == 0, result.err
    assert "NOT held out" in result.out
