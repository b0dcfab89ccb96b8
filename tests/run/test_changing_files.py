"""Files that change while they are read are named: their parts may not belong together, or the record be of others."""

import dataclasses
import os

import pytest
from PIL import Image

from splat_cli.errors import SceneError
from splat_cli.run import train_scene
from splat_cli.run.storage import load_run
from splat_cli.run.storage.inputs import inputs_of
from splat_cli.scene import formats, read_scene
from tests.scene.export_files import write_bundler, write_metashape
from tests.scene.transforms_files import write_blender, write_point_cloud, write_transforms
from tests.small_scene import write_small_scene
from tests.views import ring_of_views

LATER = 2_000_000_000  # seconds


def before(function, change):
    """The function, called after a change."""

    def changed(*arguments, **options):
        change()
        return function(*arguments, **options)

    return changed


def touch(path):
    return lambda: os.utime(path, (LATER, LATER))


def _transforms(folder):
    write_transforms(folder, ply_file_path="points.ply")
    write_point_cloud(folder / "points.ply", [[0, 0, 0]])


MODELS = {
    "colmap": (write_small_scene, ("sparse/0/cameras.bin", "sparse/0/images.bin", "sparse/0/points3D.bin")),
    "transforms": (_transforms, ("transforms.json", "points.ply")),
    "blender": (write_blender, ("transforms_train.json", "transforms_test.json")),
    "metashape": (lambda folder: write_metashape(folder, ring_of_views(3)), ("cameras.xml",)),
    "bundler": (lambda folder: write_bundler(folder, ring_of_views(3), [], []), ("bundle.out", "list.txt")),
}


@pytest.mark.parametrize("form", ["auto", "named"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_changes_while_it_is_read_is_refused(monkeypatch, tmp_path, name, form):
    write, files = MODELS[name]
    write(tmp_path / "scene")
    options = formats.SceneOptions("auto" if form == "auto" else name)
    whole = formats.FORMATS[name]
    for file in files:
        path = tmp_path / "scene" / file
        changing = dataclasses.replace(whole, read=before(whole.read, touch(path)))
        monkeypatch.setitem(formats.FORMATS, name, changing)
        with pytest.raises(SceneError, match=f"{file} changed while it was read: wait until it is complete"):
            read_scene(tmp_path / "scene", options)
        os.utime(path, (0, 0))
    monkeypatch.setitem(formats.FORMATS, name, whole)
    assert read_scene(tmp_path / "scene", options).views


@pytest.mark.parametrize("log", ["log.txt", "nohup.out", "gpu.csv", "summary.json", "splats.ply", "z.xml"])
@pytest.mark.parametrize("name", MODELS)
def test_other_files_beside_a_model_may_change(monkeypatch, tmp_path, name, log):
    """Such as a log of the run, or the export of another one."""
    write, _ = MODELS[name]
    write(tmp_path)
    path = (tmp_path / "sparse" / "0" if name == "colmap" else tmp_path) / log
    path.write_text("1")
    whole = formats.FORMATS[name]
    changing = dataclasses.replace(whole, read=before(whole.read, touch(path)))
    monkeypatch.setitem(formats.FORMATS, name, changing)
    assert read_scene(tmp_path, formats.SceneOptions(name)).views


def test_a_photograph_that_changes_before_it_is_recorded_ends_the_run(monkeypatch, training, tmp_path):
    """The run was recorded as trained on the new photograph, and scored on it."""
    training.scene = write_small_scene(tmp_path / "scene")
    photograph = training.scene / "images" / "a_03.jpg"
    other = lambda: Image.new("RGB", (40, 30), "red").save(photograph)  # noqa: E731
    monkeypatch.setattr(train_scene, "inputs_of", before(train_scene.inputs_of, other))
    with pytest.raises(SceneError, match=r"a_03\.jpg changed while it was read"):
        training.new(tmp_path / "run")
    assert not (tmp_path / "run" / "config.toml").exists()


def test_a_photograph_may_change_after_it_was_read(monkeypatch, training, tmp_path):
    """Such as during trial runs, which may take minutes; the record is of the photograph that was trained on."""
    training.scene = write_small_scene(tmp_path / "scene")
    photograph, recorded = training.scene / "images" / "a_03.jpg", inputs_of(read_scene(training.scene).views)
    other = lambda: Image.new("RGB", (40, 30), "red").save(photograph)  # noqa: E731
    monkeypatch.setattr(train_scene, "choose_settings", before(train_scene.choose_settings, other))
    run = training.new(tmp_path / "run")
    assert run.inputs()["a_03.jpg"]["files"] == recorded["a_03.jpg"]["files"]
    assert inputs_of(read_scene(training.scene).views)["a_03.jpg"]["files"] != recorded["a_03.jpg"]["files"]


def test_a_photograph_that_changes_before_it_is_scored_ends_the_command(monkeypatch, training, splat, tmp_path):
    training.scene = write_small_scene(tmp_path / "scene")
    run = training.new(tmp_path / "run", eval=True)
    change = touch(training.scene / "images" / "a_08.jpg")
    monkeypatch.setattr(load_run, "load_image_set", before(load_run.load_image_set, change))
    result = splat("eval", run.path, "--device", "cpu")
    assert (result.code, "a_08.jpg changed while it was read" in result.err) == (2, True)
