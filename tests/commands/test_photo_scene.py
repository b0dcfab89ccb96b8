"""`splat train` of photographs and videos without camera poses."""

import io
import json
import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from splat_cli.commands import photo_scene
from splat_cli.commands.photo_scene import lacks_poses, prepared_scene
from splat_cli.config import TrainConfig
from splat_cli.errors import UsageError
from splat_cli.scene.sfm import mapping
from splat_cli.terminal.console import Display
from splat_cli.terminal.interrupt import Interrupted
from tests.scene.transforms_files import write_blender
from tests.subprocesses import HANG

FIGURES = {"models": 1, "unregistered": [], "points": 300, "error": 0.5, "track_length": 3.0}
FIGURES |= {"gps_error": None, "spread": 0.0, "turns": {}}
OPTIONS = ("--device", "cpu", "--steps", "4", "--save-at", "2", "--init", "points")


@pytest.fixture
def photos(scene, tmp_path):
    """Photographs alone, as on a camera's memory card."""
    return shutil.copytree(scene / "images", tmp_path / "garden")


@pytest.fixture
def colmap(scene, monkeypatch):
    """Replaces COLMAP by known camera poses; lists the calls."""
    calls = []

    def run_colmap(job, counting, watch):
        calls.append(job)
        shutil.copytree(scene / "sparse", f"{job['scene']}/sparse")
        return FIGURES

    monkeypatch.setattr(mapping, "run_colmap", run_colmap)
    monkeypatch.setattr(mapping, "find_spec", lambda name: name)
    return calls


def test_photographs_become_a_scene_a_run_and_a_page(splat, photos, colmap, tmp_path):
    result = splat("train", photos, *OPTIONS)
    assert result.code == 0, result.err
    assert "estimating them with COLMAP, in scenes/garden" in result.err
    assert "shows more)\nDuration with default settings: camera poses " in result.err.replace(f"{photos}", "PHOTOS")
    assert "Report: runs/garden/report.html (open it in a browser)" in result.out
    assert (tmp_path / "cwd/runs/garden/report.html").is_file()
    assert [job["refines_lens"] for job in colmap] == [True]


def prepared_with(monkeypatch, photos, **functions):
    """`prepared_scene` with other functions of its module, without pycolmap."""
    for name, function in functions.items():
        monkeypatch.setattr(photo_scene, name, function)
    monkeypatch.setattr(photo_scene, "require_pycolmap", lambda: None)
    return prepared_scene(photos, TrainConfig(), Display(io.StringIO()))


def test_photographs_are_checked_while_their_poses_are_estimated(photos, tmp_path, monkeypatch):
    started, checked = threading.Event(), threading.Event()

    def estimate(*args, **options):
        started.set()
        assert checked.wait(HANG)
        raise UsageError("estimated")

    def check(*args):
        assert started.wait(HANG)
        checked.set()

    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="estimated"):
        prepared_with(monkeypatch, photos, make_scene=estimate, _say_advice=check)


def test_an_interruption_ends_the_check(photos, tmp_path, monkeypatch):
    started, finished = threading.Event(), threading.Event()

    def estimate(*args, **options):
        assert started.wait(HANG)
        raise Interrupted("estimated")

    def check(source, paths, counting):
        started.set()
        with counting("photographs", 9) as count:
            for _ in range(100):
                time.sleep(0.1)
                count(1)
        finished.set()

    monkeypatch.chdir(tmp_path)
    with pytest.raises(Interrupted, match="estimated"):
        prepared_with(monkeypatch, photos, make_scene=estimate, check_photographs=check)
    assert not finished.is_set()


def test_the_scene_is_reused_until_photographs_change(splat, photos, colmap, tmp_path):
    for _ in range(2):
        assert splat("train", photos, *OPTIONS).code == 0
    assert len(colmap) == 1
    assert (tmp_path / "cwd/runs/garden-2").is_dir()
    shutil.copy(min(photos.iterdir()), photos / "new.jpg")
    result = splat("train", photos, *OPTIONS)
    assert "in scenes/garden-2" in result.err
    assert len(colmap) == 2


def test_an_interrupted_run_continues(splat, photos, colmap, tmp_path):
    assert splat("train", photos, *OPTIONS).code == 0
    run = tmp_path / "cwd/runs/garden"
    (run / "result.json").unlink()
    other = splat("train", photos, *OPTIONS, "--sh-degree", "1")
    assert "runs/garden-2" in other.out, "with other settings it is another run"
    result = splat("train", photos, *OPTIONS)
    assert (result.code, "Continuing runs/garden" in result.err) == (0, True), result.err
    assert "Run: runs/garden\n" in result.out


def test_an_interrupted_run_on_a_scene_with_poses_is_named(splat, scene, tmp_path):
    first = splat("train", scene, *OPTIONS)
    assert (first.code, "is not finished" in first.err) == (0, False), first.err
    run = f"runs/{scene.name}"
    (tmp_path / "cwd" / run / "result.json").unlink()
    second = splat("train", scene, *OPTIONS)
    assert f"{run} is not finished: splat train --resume {run} continues it" in second.err
    assert f"Run: {run}-2\n" in second.out


@pytest.mark.parametrize(
    ("name", "content"), [("config.toml", "steps ="), ("config.toml", "newer = 1"), ("result.json", "{")]
)
def test_an_earlier_run_that_cannot_be_read_stops_no_other(splat, scene, tmp_path, name, content):
    assert splat("train", scene, *OPTIONS).code == 0
    (tmp_path / "cwd/runs" / scene.name / name).write_text(content)
    second = splat("train", scene, *OPTIONS)
    assert (second.code, f"Run: runs/{scene.name}-2\n" in second.out) == (0, True), second.err


def test_out_names_the_run(splat, photos, colmap, tmp_path):
    assert splat("train", photos, *OPTIONS, "-o", tmp_path / "out").code == 0
    (tmp_path / "out/result.json").unlink()
    result = splat("train", photos, *OPTIONS, "-o", tmp_path / "out")
    assert (result.code, f"Continuing {tmp_path / 'out'}" in result.err) == (0, True), result.err


def test_photographs_in_images_leave_out_what_lies_beside(splat, photos, colmap, tmp_path):
    (tmp_path / "shed").mkdir()
    photos.rename(tmp_path / "shed/images")
    shutil.copytree(tmp_path / "shed/images", tmp_path / "shed/images_2")
    assert splat("train", tmp_path / "shed", *OPTIONS).code == 0
    assert colmap[0]["names"] == sorted(path.name for path in (tmp_path / "shed/images").iterdir())


@pytest.mark.parametrize("images", ["pics", "../odd/pics", "pics/"])
def test_images_of_a_folder_without_poses(splat, photos, colmap, tmp_path, images):
    """--images is relative to the scene or to the current folder; photographs in other folders are left out."""
    odd = tmp_path / "odd"
    odd.mkdir()
    (tmp_path / "cwd").mkdir(exist_ok=True)
    shutil.copytree(photos, odd / "copies")
    photos.rename(odd / "pics")
    result = splat("train", odd, "--images", images, *OPTIONS)
    assert result.code == 0, result.err
    assert colmap[0]["names"] == sorted(path.name for path in (odd / "pics").iterdir())
    assert "Run: runs/odd\n" in result.out
    assert (splat("train", odd, "--images", images, *OPTIONS).code, len(colmap)) == (0, 1)


def test_images_of_an_empty_folder_and_a_missing_folder(splat, photos, colmap, tmp_path):
    (tmp_path / "empty").mkdir()
    assert splat("train", tmp_path / "empty", "--images", photos, *OPTIONS).code == 0
    result = splat("train", tmp_path / "empty", "--images", "pics", *OPTIONS)
    expected = (
        f"there is no folder pics: --images DIR is relative to the scene, {tmp_path / 'empty'}, or to the current"
    )
    assert (result.code, expected in result.err, result.err.count("\n")) == (2, True, 1), result.err


@pytest.mark.parametrize(("name", "option"), [("images", ""), ("pics", " --images pics")])
def test_photographs_with_poses_in_the_folder_above_are_not_given_to_colmap(
    splat, scene, colmap, tmp_path, monkeypatch, name, option
):
    posed = shutil.copytree(scene, tmp_path / "posed")
    (posed / "images").rename(posed / name)
    result = splat("train", posed / name, *OPTIONS)
    assert (result.code, result.err.count("\n"), colmap) == (2, 1, [])
    told = f"{posed} has camera poses of these photographs: `splat train {posed}{option}` uses them, `splat sfm"
    assert told in result.err
    monkeypatch.chdir(posed / name)
    assert told in splat("train", ".", *OPTIONS).err


def test_other_photographs_beside_a_scene_are_given_to_colmap(splat, scene, photos, colmap, tmp_path):
    posed = shutil.copytree(scene, tmp_path / "posed")
    (posed / "more").mkdir()
    for path in photos.iterdir():
        path.rename(posed / "more" / f"other_{path.name}")
    assert splat("train", posed / "more", *OPTIONS, "--steps", "1").err.count("estimating them with COLMAP") == 1


def test_few_registered_photographs_are_a_warning(splat, photos, colmap, monkeypatch):
    monkeypatch.setitem(FIGURES, "unregistered", [f"{number}.jpg" for number in range(5)])
    result = splat("train", photos, *OPTIONS)
    assert "Warning: Only 4 of 9 photographs were registered" in result.err
    assert "Not registered: 0.jpg, 1.jpg, 2.jpg, 3.jpg, 4.jpg (listed in scenes" in result.err


def test_processes_that_begin_with_the_same_photographs_share_their_poses(photos, colmap, tmp_path, monkeypatch):
    """Two runs of a batch on several GPUs, with other settings: the second waits for the poses of the first."""
    monkeypatch.chdir(tmp_path)
    begun, waiting = threading.Event(), threading.Event()
    estimate = mapping.run_colmap

    def run_colmap(job, counting, watch):
        begun.set()
        assert waiting.wait(HANG)
        return estimate(job, counting, watch)

    def say(display, line):
        if line.startswith("waits for another process"):
            waiting.set()

    monkeypatch.setattr(mapping, "run_colmap", run_colmap)
    monkeypatch.setattr(Display, "say", say)
    display = Display(io.StringIO(), bar=False)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(prepared_scene, photos, TrainConfig(), display)
        assert begun.wait(HANG)
        second = pool.submit(prepared_scene, photos, TrainConfig(), display)
        assert first.result(HANG)[0] == second.result(HANG)[0] == Path("scenes/garden")
    assert len(colmap) == 1


def test_processes_that_unpack_the_same_zip_file_share_the_scene(scene, tmp_path, monkeypatch):
    """The folder exists already when the second process has completed its own."""
    monkeypatch.chdir(tmp_path)
    archive = Path(shutil.make_archive(str(tmp_path / "garden"), "zip", scene))
    display, unpack = Display(io.StringIO(), bar=False), photo_scene.unzip_scene

    def late(path, folder, complete):
        monkeypatch.setattr(photo_scene, "unzip_scene", unpack)
        assert prepared_scene(archive, TrainConfig(), display)[0] == Path("scenes/garden")  # the other process
        unpack(path, folder, complete)

    monkeypatch.setattr(photo_scene, "unzip_scene", late)
    assert prepared_scene(archive, TrainConfig(), display)[0] == Path("scenes/garden")
    assert [path.name for path in Path("scenes").iterdir()] == ["garden"]


def test_a_batch_takes_no_run_of_other_photographs_or_zip_files_of_the_same_name(
    splat, scene, photos, colmap, tmp_path
):
    """Their splats are not reported as the result; the run of the same ones is."""
    archive = Path(shutil.make_archive(str(tmp_path / "a" / "town"), "zip", scene))
    others = [shutil.copytree(photos, tmp_path / "other" / "garden"), tmp_path / "b" / "town.zip"]
    (others[0] / "a_00.jpg").rename(others[0] / "b_00.jpg")
    others[1].parent.mkdir()
    others[1].write_bytes(archive.read_bytes() + b"\0")
    for source, other in zip((photos, archive), others, strict=True):
        assert splat("train", source, "-o", f"out/{source.name}", *OPTIONS, "--no-report").code == 0
        for given, status in ((source, "skipped"), (other, "failed")):
            result = splat("batch", given, "-o", "out", *OPTIONS, "--seed", "3", "--json")
            assert json.loads(result.out)["scenes"][0]["status"] == status


def test_missing_pycolmap_is_one_line(splat, photos, monkeypatch):
    monkeypatch.setitem(sys.modules, "pycolmap", None)
    result = splat("train", photos, *OPTIONS)
    last = result.err.splitlines()[-1]
    assert (result.code, last.count("pip install 'splat-cli[sfm]'")) == (2, 1)
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("there", [("test",), ("val",), ("test", "val")])
@pytest.mark.parametrize("named", ["folder", "file"])
def test_blender_scene_without_training_frames_is_not_a_folder_of_photographs(splat, tmp_path, colmap, there, named):
    """`splat train` and `info` say which file is missing; structure from motion does not run."""
    root = write_blender(tmp_path / "lego")
    (root / "transforms_train.json").rename(tmp_path / "transforms_train.json")
    (root / "transforms_test.json").rename(root / f"transforms_{there[-1]}.json")
    for kind in there:
        shutil.copyfile(root / f"transforms_{there[-1]}.json", tmp_path / "copy.json")
        (tmp_path / "copy.json").rename(root / f"transforms_{kind}.json")
    files = " and ".join(f"transforms_{kind}.json" for kind in there)
    for command in (("train",), ("train", "--format", "blender"), ("info",)):
        result = splat(*command, root if named == "folder" else root / f"transforms_{there[0]}.json")
        assert (result.code, result.err.count("\n"), colmap) == (2, 1, []), result.err
        assert f"has {files}, but no transforms_train.json" in result.err
    shutil.copytree(tmp_path / "lego", tmp_path / "whole")
    (tmp_path / "transforms_train.json").rename(tmp_path / "whole" / "transforms_train.json")
    assert splat("info", tmp_path / "whole").code == 0


def test_inputs_without_poses(scene, photos, tmp_path):
    (tmp_path / "walk.MP4").touch()
    (tmp_path / "empty").mkdir()
    assert lacks_poses(photos)
    assert lacks_poses(tmp_path / "walk.MP4")
    assert not lacks_poses(scene)
    assert not lacks_poses(tmp_path / "empty")
    assert not lacks_poses(tmp_path / "nowhere")


def test_too_few_photographs(splat, tmp_path):
    pytest.importorskip("pycolmap")
    (tmp_path / "two").mkdir()
    for number in range(2):
        Image.new("RGB", (8, 6)).save(tmp_path / "two" / f"{number}.png")
    result = splat("train", tmp_path / "two", *OPTIONS)
    assert (result.code, "too few photographs" in result.err) == (2, True)


def test_photographs_deep_in_folders_lack_poses_unless_a_scene_is_there(scene, photos, tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    deep = shutil.move(photos, tmp_path / "a" / "b" / "Fotos über Öl")
    assert lacks_poses(tmp_path / "a")
    shutil.copytree(scene, deep.parent / "scene")
    assert not lacks_poses(tmp_path / "a")


def test_pictures_beside_a_scene_are_not_taken_for_photographs_without_poses(splat, scene, photos, tmp_path):
    """The output of `splat demo`: a scene, rendered pictures in another folder, and an animation of them."""
    root = tmp_path / "demo"
    root.mkdir()
    shutil.move(photos, root / "path")
    (root / "path.webp").touch()
    assert lacks_poses(root)
    shutil.copytree(scene, root / "scene")
    assert not lacks_poses(root)
    result = splat("train", root, *OPTIONS)
    assert (result.code, f"{root} is not a scene, but holds 1: give {root / 'scene'}" in result.err) == (2, True)


def test_scenes_made_of_photographs_do_not_hide_the_photographs(scene, photos, tmp_path, monkeypatch):
    """`splat train .` makes scenes/NAME below the photographs; the same command finds both again."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenes").mkdir()
    shutil.move(photos, tmp_path / "trip")
    shutil.copytree(scene, tmp_path / "scenes" / "trip")
    assert lacks_poses(tmp_path)
    assert not lacks_poses(tmp_path / "scenes")


@pytest.mark.parametrize("command", [("train", "--steps", "1", "--device", "cpu"), ("sfm",)])
def test_run_is_refused_as_a_scene(splat, scene, run_copy, tmp_path, command):
    """Regression: structure from motion got the run's rendered pictures."""
    shutil.copytree(scene / "images", run_copy / "renders")
    result = splat(command[0], run_copy, "-o", tmp_path / "out", *command[1:])
    assert (result.code, "is the folder of a run, not a scene: `splat train --resume" in result.err) == (2, True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("folder", "options"), [("masks", ()), ("people", ("--masks", "people", "--invert-masks"))])
def test_masks_beside_photographs_are_used_for_poses_and_training(splat, photos, colmap, tmp_path, folder, options):
    (tmp_path / "shed").mkdir()
    photos.rename(tmp_path / "shed/images")
    name = min(path.name for path in (tmp_path / "shed/images").iterdir())
    (tmp_path / "shed" / folder).mkdir()
    mask = Image.new("L", (40, 30), 0)
    mask.paste(255, (0, 0, 40, 10))
    mask.save(tmp_path / "shed" / folder / f"{name}.png")
    result = splat("train", tmp_path / "shed", *OPTIONS, *options)
    assert result.code == 0, result.err
    assert "9 photographs, 1 with masks" in result.err
    made = Path(colmap[0]["masks"])
    assert made == tmp_path / "cwd/scenes/shed/masks"
    with Image.open(made / f"{name}.png") as written:
        assert written.getpixel((5, 5)) == (0 if options else 255), "white counts"


def test_poses_of_panoramas_are_those_of_spheres(splat, photos, colmap, tmp_path):
    names = [f"p{number}.jpg" for number in range(9)]
    for path in photos.glob("a_*"):
        path.unlink()
    for name in names:
        Image.radial_gradient("L").resize((64, 32)).convert("RGB").save(photos / name)
    command = ("sfm", photos, "-o", tmp_path / "scene")
    result = splat(*command, "--camera-model", "SIMPLE_RADIAL")
    assert (result.code, "the photographs are panoramas" in result.err, colmap) == (2, True, []), result.err
    assert not (tmp_path / "scene").exists()
    splat(*command)
    Image.radial_gradient("L").resize((40, 30)).convert("RGB").save(photos / "a.jpg")
    splat("train", photos, *OPTIONS)
    assert [(job["spheres"], job["groups"], job["sizes"], job["camera_model"]) for job in colmap] == [
        ([names], [], [], "SIMPLE_RADIAL")
    ] * 2, "the other photograph has the usual camera"
    assert colmap[1]["names"] == ["a.jpg", *names]
    assert [job["refines_lens"] for job in colmap] == [False, False], "a given camera model is kept"


def test_fisheye_circles_are_not_estimated_unless_told(splat, photos, colmap, tmp_path):
    x, y = np.meshgrid(np.arange(80) - 39.5, np.arange(60) - 29.5)
    circle = Image.fromarray(np.where(np.hypot(x, y) < 29, 200, 0).astype(np.uint8))
    for path in photos.iterdir():
        circle.convert("RGB").save(path, "JPEG")
    result = splat("train", photos, *OPTIONS)
    assert (result.code, "the circle of a fisheye" in result.err, colmap) == (2, True, []), result.err
    assert not (tmp_path / "cwd/scenes/garden").exists()
    splat("train", photos, *OPTIONS, "--allow-implausible")
    assert len(colmap) == 1
