"""Resumes that are refused, in one line and before anything is written."""

import dataclasses
import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from splat_cli.errors import DiskError, FormatError, OutOfMemory, UnreadableError, UsageError
from splat_cli.run import train_scene as training_module
from splat_cli.run.checkpoints import file as checkpoint_file
from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.checkpoints.file import FORMAT, read_checkpoint, write_checkpoint
from splat_cli.run.resume import plan_resumption
from splat_cli.run.storage.inputs import inputs_of, refuse_other_inputs
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.colmap import read_model
from splat_cli.scene.colmap.binary import write_model
from splat_cli.scene.read import read_scene
from tests.small_scene import write_small_scene
from tests.training import Trained


def _contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _refused(training, run, error=UsageError, match=None, **changes):
    """The message of a refused resume, which must not change any file of the run."""
    before = _contents(run.path)
    with pytest.raises(error, match=match) as caught:
        training.resume(run.path, **changes)
    assert "\n" not in str(caught.value)
    assert _contents(run.path) == before
    return caught.value


@pytest.fixture
def moved(copy, scene, tmp_path):
    """The scene copied to another place, where the run looks for it from now on."""
    folder = shutil.copytree(scene, tmp_path / "moved", copy_function=shutil.copy)
    copy.save_config(copy.config(), folder, "CPU")
    return folder


def _edit_model(scene, change):
    """Replace each image of the COLMAP model by `change(image)`."""
    folder = scene / "sparse" / "0"
    model = read_model(folder)
    write_model(folder, dataclasses.replace(model, images=[change(image) for image in model.images]))


def test_a_copied_scene_is_the_same(training, copy, finished, moved):
    training.resume(copy.path)
    assert copy.ply_path(60).read_bytes() == finished.ply_path(60).read_bytes()
    assert copy.inputs() == finished.inputs()


@pytest.mark.parametrize("name", ["a_00.jpg", "a_02.jpg", "a_08.jpg"])
def test_a_missing_photograph_keeps_its_camera_and_the_split(training, tmp_path, scene, name):
    """The first and the last are held out."""
    moved = shutil.copytree(scene, tmp_path / "moved")
    run = Trained(moved).new(tmp_path / "run", eval=True, steps=20, checkpoint_every=10)
    held_out = [view.name for view in run.views("test")]
    (moved / "images" / name).rename(moved / "gone")
    _refused(training, run, match=rf"\({name} is missing\): restore it, or start a new run", steps=30)
    assert [view.name for view in run.views("test")] == held_out
    (moved / "gone").rename(moved / "images" / name)
    training.resume(run.path, steps=30)
    assert run.result()["steps"] == 30


def test_a_new_photograph_is_named(training, copy, moved):
    shutil.copy(moved / "images" / "a_08.jpg", moved / "images" / "a_09.jpg")
    model = read_model(moved / "sparse" / "0")
    images = [*model.images, dataclasses.replace(model.images[-1], id=10, name="a_09.jpg")]
    write_model(moved / "sparse" / "0", dataclasses.replace(model, images=images))
    _refused(training, copy, match=r"\(a_09\.jpg is new\)")


def test_an_edited_photograph_is_named(training, copy, moved):
    path = moved / "images" / "a_03.jpg"
    Image.fromarray(255 - np.asarray(Image.open(path))).save(path)
    _refused(training, copy, match=r"\(a_03\.jpg has another photograph\)")


@pytest.mark.parametrize("name", ["a.bmp", "a.ppm", "a.pgm", "a.tif", "bmp.jpg", "tiff.png"])
def test_a_local_edit_of_an_uncompressed_photograph_is_named(copy, scene, tmp_path, name):
    """Size and blocks of the file are unchanged. Its suffix may be another."""
    views, path = read_scene(scene).views, tmp_path / name
    stated = {"bmp.jpg": "BMP", "tiff.png": "TIFF"}.get(name)
    Image.new("L" if name == "a.pgm" else "RGB", (400, 300)).save(path, format=stated)
    views[3] = dataclasses.replace(views[3], path=path)
    before = inputs_of(views)
    content = bytearray(path.read_bytes())
    content[9_000:20_000] = bytes([255]) * 11_000
    path.write_bytes(content)
    now = inputs_of(views)
    copy.save_inputs(before, [])
    with pytest.raises(UsageError, match=r"\(a_03\.jpg has another photograph\)"):
        refuse_other_inputs(copy, now, [], scene, copy.config())
    files = before[views[3].name]["files"]
    files["photograph"] = files["photograph"].rpartition("-")[0]  # as in files of an earlier version
    del before[views[3].name]["lens"]
    copy.save_inputs(before, [])
    refuse_other_inputs(copy, now, [], scene, copy.config())


def test_an_unreadable_photograph_is_named_unless_it_was_unreadable_before(copy, scene, monkeypatch):
    views, opened = read_scene(scene).views, Path.open
    points = copy.input_points()

    def refuse(path, *arguments, **options):
        if path.name == "a_03.jpg":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refuse)
        inputs = inputs_of(views)
    with pytest.raises(UsageError, match=r"\(a_03\.jpg has an unreadable photograph\)"):
        refuse_other_inputs(copy, inputs, points, scene, copy.config())
    copy.save_inputs(inputs, [])
    refuse_other_inputs(copy, inputs, points, scene, copy.config())
    refuse_other_inputs(copy, inputs_of(views), points, scene, copy.config())


def test_a_mask_that_was_added_is_named(training, copy, moved):
    (moved / "masks").mkdir()
    Image.new("L", (40, 30), 255).save(moved / "masks" / "a_03.jpg.png")
    _refused(training, copy, match=r"\(a_03\.jpg has another mask\)")


def test_other_points_are_named(training, copy, moved):
    """They determine default settings and, with --free-space, the loss."""
    model = read_model(moved / "sparse" / "0")
    model.points = model.points * np.float32(1.01)
    write_model(moved / "sparse" / "0", model)
    _refused(training, copy, match=r"\(other points\)")


def test_points_of_another_crop_may_differ(copy, scene):
    inputs, points = inputs_of(read_scene(scene).views), [2 * value for value in copy.input_points()]
    refuse_other_inputs(copy, inputs, points, scene, dataclasses.replace(copy.config(), crop="0,0,0,1"))
    with pytest.raises(UsageError, match=r"\(other points\)"):
        refuse_other_inputs(copy, inputs, points, scene, copy.config())


@pytest.mark.parametrize("old", [False, True])
def test_poses_estimated_anew_are_named(training, copy, moved, old):
    """old: the run is of an earlier version, which recorded only cameras.json."""
    if old:
        copy.inputs_path.unlink()
    images = read_model(moved / "sparse" / "0").images
    others = iter([*images[1:], images[0]])

    def exchange(image):
        other = next(others)
        return dataclasses.replace(image, quat=other.quat, translation=other.translation)

    _edit_model(moved, exchange)
    _refused(training, copy, match=r"a_00\.jpg has another pose; a_01\.jpg has another pose.* more\)")


def test_a_pose_that_moves_by_little_is_named(training, copy, moved):
    def shift(image):
        x, y, z = image.translation
        return dataclasses.replace(image, translation=(x + (2e-3 if image.name == "a_04.jpg" else 0.0), y, z))

    _edit_model(moved, shift)
    _refused(training, copy, match=r"\(a_04\.jpg has another pose\)")


def test_other_sizes_are_an_option(training, copy, finished):
    """An option that changes the views is not a changed scene."""
    training.resume(copy.path, downscale=2)
    assert {view.width for view in copy.views("all")} == {20}
    assert copy.inputs()["a_00.jpg"]["width"] == 20


def test_earlier_scores_of_other_pixels_are_named(training, copy, tmp_path):
    def warnings(run, **changes):
        before = len(training.said)
        plan_resumption(run, None, {"steps": 80, **changes}, training.display)
        return [line for line in training.said[before:] if line.startswith("Warning")]

    assert warnings(copy, downscale=2) == []
    run = training.new(tmp_path / "scored", eval=True, steps=30)
    expected = [f"Warning: --downscale changes what is scored: earlier scores of {run.path} are for other pixels"]
    assert warnings(run, downscale=2) == expected
    assert warnings(run) == []
    run.metrics_path.unlink()
    assert warnings(run, downscale=2) == []


def test_another_scene_is_refused(splat, copy, tmp_path):
    other = write_small_scene(tmp_path / "other", num_views=7)
    before = _contents(copy.path)
    result = splat("train", other, "--resume", copy.path, "--device", "cpu")
    assert result.code == 2
    last = result.err.splitlines()[-1]
    assert f"Error: {other} is not what {copy.path} was trained on (a_01.jpg has another pose" in last
    assert _contents(copy.path) == before
    assert copy.scene_path().name == "toy"


def test_a_run_of_an_earlier_version_is_resumed(training, copy, finished):
    copy.inputs_path.unlink()
    training.resume(copy.path)
    assert copy.ply_path(60).read_bytes() == finished.ply_path(60).read_bytes()
    assert copy.inputs() == finished.inputs()


def test_defaults_of_another_version_are_named(training, copy):
    """As if that version had chosen another dropout."""
    training.resume(copy.path)
    assert not any("other defaults" in line for line in training.said)
    path = checkpoint_paths(copy.checkpoints_path)[0]
    whole = read_checkpoint(path)
    whole.metadata["settings"] |= {"dropout": 0.125, "init_scale": 0.5}
    write_checkpoint(path, whole)
    copy.result_path.unlink()
    shutil.rmtree(copy.ply_path(60).parent)
    training.resume(copy.path)
    assert "until step 60, the run had other defaults: --dropout 0.125 -> " in " ".join(training.said)
    assert "--init-scale" not in " ".join(training.said)


def test_a_removed_setting_that_was_on_is_named(training, copy):
    text = copy.config_path.read_text()
    for value, is_named in (("false", False), ("true", True)):
        copy.config_path.write_text(f"field_moves = {value}\n{text}")
        before = len(training.said)
        plan_resumption(copy, None, {"steps": 80}, training.display)
        said = " ".join(training.said[before:])
        assert ("config.toml: field_moves is ignored: gradients" in said) is is_named


def test_too_little_memory_changes_nothing(training, copy):
    _refused(training, copy, OutOfMemory, max_memory=1e-3)


def test_a_full_disk_changes_nothing(training, copy, monkeypatch):
    def full(path, needed):
        raise DiskError("no space")

    monkeypatch.setattr(training_module, "require_space", full)
    _refused(training, copy, DiskError, checkpoint_every=7)


def test_a_checkpoint_that_does_not_fit_changes_nothing(training, copy):
    whole = read_checkpoint(checkpoint_paths(copy.checkpoints_path)[0])
    arrays = {**whole.arrays, **{name: whole.arrays[name][:14] for name in ("params", "moments")}}
    state = {**whole.metadata["state"], "sh_degree": 0}
    whole.arrays, whole.metadata["state"] = arrays, state
    write_checkpoint(checkpoint_paths(copy.checkpoints_path)[0], whole)
    _refused(training, copy, FormatError, "does not fit", checkpoint_every=7)


class Killed(BaseException):
    """Ends the program at once."""


def test_refined_poses_outlive_a_killed_resume(training, tmp_path, monkeypatch):
    run = training.new(tmp_path / "run", pose_opt=True, steps=20, checkpoint_every=10)
    refined = run.cameras_path.read_bytes()
    assert run.inputs()["a_00.jpg"]["w2c"] != run.views("all")[0].w2c[:3].ravel().tolist()

    def kill(self, *arguments):
        raise Killed

    monkeypatch.setattr(RunDir, "save_config", kill)
    with pytest.raises(Killed):
        training.resume(run.path, steps=30)
    assert run.cameras_path.read_bytes() == refined
    monkeypatch.undo()
    run.inputs_path.unlink()  # as in runs of an earlier version
    training.resume(run.path, steps=30)


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EMFILE, errno.ESTALE])
def test_a_checkpoint_that_cannot_be_read_now_is_left_alone(training, copy, finished, monkeypatch, number):
    def fail(path, file):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_file, "_check_digest", fail)
        error = _refused(training, copy, UnreadableError, r"step_40\.npz cannot be read: .*; make it readable")
    assert error.exit_code == 2
    training.resume(copy.path)
    assert copy.ply_path(60).read_bytes() == finished.ply_path(60).read_bytes()


def test_a_checkpoint_of_another_version_is_left_alone(training, copy):
    newest = checkpoint_paths(copy.checkpoints_path)[0]
    checkpoint = read_checkpoint(newest)
    checkpoint.metadata["format"] = FORMAT + 1
    write_checkpoint(newest, checkpoint)
    error = _refused(training, copy, UsageError, r"step_40\.npz was written by version .*; resume with that version")
    assert error.exit_code == 2


def test_damaged_checkpoints_never_start_the_run_again(training, copy):
    for path in checkpoint_paths(copy.checkpoints_path):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FormatError, match=r"no checkpoint of the run can be read, .*damaged.*: restore one in"):
        training.resume(copy.path)
    assert len(list(copy.checkpoints_path.glob("*.unreadable"))) == 2
    error = _refused(training, copy, FormatError, "no checkpoint of the run can be read: restore one in .*--init-from")
    assert error.exit_code == 2


def test_saved_splats_without_a_checkpoint_are_not_replaced(training, finished, tmp_path):
    run = RunDir(shutil.copytree(finished.path, tmp_path / "run"))
    run.result_path.unlink()
    shutil.rmtree(run.checkpoints_path)
    _refused(training, run, UsageError, r"has splats of step 60 but no checkpoint .*--init-from .*point_cloud\.ply")


def test_a_folder_of_checkpoints_that_cannot_be_read_is_not_empty(training, copy, monkeypatch):
    def refusing(opened):
        def refuse(path="."):
            if str(path).endswith("checkpoints"):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return opened(path)

        return refuse

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refusing(os.scandir))
        patch.setattr(os, "listdir", refusing(os.listdir))
        with pytest.raises(UnreadableError, match="checkpoints cannot be read: Permission denied"):
            plan_resumption(copy, None, {}, training.display)
        with pytest.raises(UnreadableError):
            checkpoint_paths(copy.checkpoints_path)
