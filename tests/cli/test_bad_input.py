"""Bad input ends with one line and exit code 2, and writes nothing."""

import os
import shutil
import threading
from contextlib import suppress

import numpy as np
import plyfile
import pytest

from tests.small_scene import write_small_scene


@pytest.fixture
def copy(scene, tmp_path):
    """A copy of the small scene, for tests to damage."""
    return shutil.copytree(scene, tmp_path / "broken")


@pytest.fixture
def refused(splat, tmp_path):
    """Asserts that training is refused with a message that contains the words."""

    def check(scene, *words):
        out = tmp_path / "new" / "run"
        result = splat("train", scene, "-o", out, "--device", "cpu", "--steps", "2")
        assert result.code == 2
        assert result.err.startswith("Error: ")
        assert result.err.count("\n") == 1
        for word in words:
            assert word in result.err
        assert not out.parent.exists()

    return check


def test_no_such_folder(refused, tmp_path):
    refused(tmp_path / "nowhere", "nowhere")


def test_no_model_in_the_folder(refused, copy):
    shutil.rmtree(copy / "sparse")
    shutil.rmtree(copy / "images")
    refused(copy, "neither photographs nor camera poses", "a COLMAP model", "sparse/0")


@pytest.mark.parametrize("length", [0, 5, 100, -3])
@pytest.mark.parametrize("name", ["cameras.bin", "images.bin", "points3D.bin"])
def test_truncated_model(refused, copy, name, length):
    path = copy / "sparse" / "0" / name
    path.write_bytes(path.read_bytes()[: min(length, path.stat().st_size - 1)])
    refused(copy, name)


def test_all_photographs_missing(refused, copy):
    for path in (copy / "images").iterdir():
        path.unlink()
    refused(copy, "none of the 9 photographs")


def test_all_photographs_empty(refused, copy):
    for path in (copy / "images").iterdir():
        path.write_bytes(b"")
    refused(copy, "none of the 9 photographs", "empty or not an image")


@pytest.mark.parametrize("source", ["missing.ply", "splats.obj"])
def test_missing_splats_are_reported_before_the_scene_is_read(splat, tmp_path, source):
    result = splat("train", tmp_path / "nowhere", "--init-from", source, "--device", "cpu")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert source in result.err
    assert list((tmp_path / "cwd").iterdir()) == []


def test_single_photograph_cannot_be_held_out(splat, tmp_path):
    scene = write_small_scene(tmp_path / "single", num_views=1)
    result = splat("train", scene, "--eval", "--device", "cpu")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "without --eval" in result.err
    assert list((tmp_path / "cwd").iterdir()) == []


def test_unwritable_output_folder_is_reported_before_the_scene_is_read(splat, tmp_path):
    (tmp_path / "file").touch()
    result = splat("train", tmp_path / "nowhere", "-o", tmp_path / "file" / "run")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "cannot be written" in result.err


def test_used_output_folder_is_left_alone(splat, scene, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    result = splat("train", scene, "-o", tmp_path / "full")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]


@pytest.fixture(params=["without opacity", "no PLY", "empty", "missing"])
def bad_ply(request, tmp_path):
    path = tmp_path / "bad.ply"
    if request.param == "without opacity":
        vertices = np.zeros(3, [("x", "<f4"), ("y", "<f4"), ("z", "<f4")])
        plyfile.PlyData([plyfile.PlyElement.describe(vertices, "vertex")]).write(str(path))
    elif request.param != "missing":
        path.write_bytes(b"" if request.param == "empty" else b"solid cube\n")
    return path


@pytest.mark.parametrize("command", [["export", "PLY", "out.ply"], ["info", "PLY"], ["eval", "PLY"], ["render", "PLY"]])
def test_file_that_is_not_a_ply(splat, bad_ply, command, tmp_path):
    result = splat(*[bad_ply if word == "PLY" else word for word in command])
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert "bad.ply" in result.err
    assert list((tmp_path / "cwd").iterdir()) == []


def test_export_to_an_unwritable_path(splat, trained, tmp_path):
    (tmp_path / "file").touch()
    result = splat("export", trained, tmp_path / "file" / "out.ply")
    assert (result.code, result.err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("garden.ply", ("`splat view", "--init-from")),
        ("garden.SPZ", ("`splat view", "--init-from")),
        ("garden.tar.gz", ("unpack it",)),
        ("garden.JPG", ("give the folder of the photographs",)),
        ("garden.docx", ("give a folder of photographs, a video, a zip file",)),
    ],
)
def test_files_that_are_not_scenes(refused, tmp_path, name, words):
    (tmp_path / name).touch()
    refused(tmp_path / name, f"{name} is not a scene: ", *words)


def test_web_address_is_refused(refused):
    refused("https://example.com/garden.zip", "is an address: download")


@pytest.mark.parametrize("where", ["dense", "garden/dense"])
def test_folder_above_a_scene_is_refused(refused, scene, tmp_path, where):
    """For example a workspace of COLMAP, or a folder of several scenes."""
    shutil.copytree(scene, tmp_path / "work" / where)
    refused(tmp_path / "work", "is not a scene, but holds 1: give", where)


def test_photographs_in_a_folder_of_another_size(refused, copy):
    (copy / "images").rename(copy / "images_4")
    refused(copy, "there is no folder", "such as --images images_4")


def _make_pipe(path):
    """A pipe at `path`; a thread opens and closes it for writing whenever someone opens it for reading."""
    os.mkfifo(path)

    def write():
        while path.is_fifo():
            with suppress(OSError):
                path.open("wb").close()

    threading.Thread(target=write, daemon=True).start()
    return path


pipes = pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes in folders")


@pipes
@pytest.mark.parametrize(("option", "suffix"), [("--points", ".ply"), ("--split", ".txt"), ("--preset", ".toml")])
def test_a_pipe_is_not_read(splat, scene, tmp_path, option, suffix):
    path = _make_pipe(tmp_path / f"pipe{suffix}")
    result = splat("train", scene, option, path, "--eval", "--device", "cpu", "--steps", "2")
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert f"{path} cannot be read: a pipe, a socket or a device" in result.err


@pipes
@pytest.mark.parametrize("name", ["metrics.json", "train.jsonl"])
def test_a_pipe_in_a_run_is_not_read(splat, run_copy, name):
    (run_copy / name).unlink()
    _make_pipe(run_copy / name)
    result = splat("report", run_copy, "--device", "cpu")
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert f"{run_copy / name} cannot be read: a pipe, a socket or a device" in result.err


@pipes
@pytest.mark.parametrize("command", [["export", "RUN", "OUT.ply"], ["report", "RUN", "-o", "OUT.html"]])
def test_a_pipe_is_not_replaced(splat, trained, tmp_path, command):
    """Nor a device: root could replace /dev/zero through a link."""
    path = _make_pipe(tmp_path / command[-1])
    result = splat(*[{"RUN": trained, command[-1]: path}.get(word, word) for word in command])
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert f"{path} cannot be written: a pipe, a socket or a device" in result.err
    assert path.is_fifo()
