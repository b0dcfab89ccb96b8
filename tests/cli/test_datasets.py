"""Commands on all kinds of scenes: distorted, exported by other programs, with masks, splits and crops."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from splat_cli.gaussians.ply import read_ply
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene import read_scene
from tests.scene.transforms_files import write_blender, write_transforms
from tests.small_scene import write_small_scene
from tests.views import ring_of_views

FEW_STEPS = ["--device", "cpu", "--steps", "3", "--init-points", "200"]


@pytest.fixture
def trained_run(splat, tmp_path):
    def train(scene, *options):
        result = splat("train", scene, "-o", tmp_path / "run", *FEW_STEPS, *options)
        assert result.code == 0, result.err
        return RunDir(tmp_path / "run"), result

    return train


def test_distorted_photographs(trained_run, tmp_path):
    run, _ = trained_run(write_small_scene(tmp_path / "bent", camera_model="SIMPLE_RADIAL"), "--eval")
    view = run.views("all")[0]
    assert (view.width, view.height) != (40, 30)
    assert len(run.metrics()["steps"]["3"]["per_image"]) == 2


def test_distorted_photographs_are_evaluated_again(trained_run, splat, tmp_path):
    run, _ = trained_run(write_small_scene(tmp_path / "bent", camera_model="SIMPLE_RADIAL"), "--eval")
    before = run.metrics()["steps"]["3"]["psnr"]
    assert splat("eval", run.path, "--device", "cpu").code == 0
    assert run.metrics()["steps"]["3"]["psnr"] == pytest.approx(before, abs=1e-6)


def test_transforms_without_points(trained_run, splat, tmp_path):
    scene = write_transforms(tmp_path / "scene", k1=0.05)
    run, result = trained_run(scene)
    assert "starts from 200 random points" in result.err
    assert "transforms.json" in result.err
    assert len(run.views("all")) == 5
    assert "transforms.json" in splat("info", scene).out


def test_blender_holds_out_its_own_test_photographs(trained_run, tmp_path):
    run, _ = trained_run(write_blender(tmp_path / "lego"), "--eval", "--background", "white")
    assert [view.name for view in run.views("test")] == ["test/r_0.png", "test/r_1.png"]
    assert sorted(run.metrics()["steps"]["3"]["per_image"]) == ["test/r_0.png", "test/r_1.png"]
    assert "split.json" in run.metrics()["protocol"]


def test_transparent_photographs_need_a_plain_background(splat, tmp_path):
    scene = write_blender(tmp_path / "lego")
    result = splat("train", scene, *FEW_STEPS, "--background", "random")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "--background black or white" in result.err


def test_format_option_overrides_detection(trained_run, tmp_path):
    scene = write_transforms(write_small_scene(tmp_path / "both"), ring_of_views(9))
    _, result = trained_run(scene, "--format", "transforms")
    assert "transforms.json" in result.err


def test_detected_format_is_reported(splat, tmp_path):
    scene = write_transforms(write_small_scene(tmp_path / "both"), ring_of_views(9))
    assert "COLMAP model in" in splat("info", scene).out
    assert "--format chooses" in splat("info", scene).out


def test_masks(trained_run, tmp_path):
    scene = write_small_scene(tmp_path / "scene")
    (scene / "masks").mkdir()
    half = np.repeat(np.array([[0, 255]], np.uint8), 20, axis=1).repeat(30, axis=0)
    for view in ring_of_views(9)[:4]:
        Image.fromarray(half).save(scene / "masks" / f"{view.name}.png")
    _, result = trained_run(scene, "--eval", "--invert-masks")
    assert "4 with masks" in result.err


def test_masks_and_depth_maps_with_names_of_no_photograph_are_refused_or_named(splat, tmp_path):
    """Training without them would look at what they hide."""
    scene = write_small_scene(tmp_path / "scene")
    for folder in ("masks", "others", "depths"):
        (scene / folder).mkdir()
        Image.new("L", (40, 30), 255).save(scene / folder / "A_00.jpg")
    begun = ("train", scene, "-o", tmp_path / "run", "--steps", 1, "--device", "cpu", "--no-report")
    given = splat(*begun, "--masks", "others")
    assert given.code == 2
    assert "others has no mask for any of the 9 photographs: name them like these, such as a_00.jpg.png" in given.err
    warned = splat(*begun).err
    assert "masks has no mask for any of the photographs, so none is used" in warned
    assert "depths has no depth map for any of the photographs, so none is used" in warned
    assert "has no mask" not in splat(*begun[:3], tmp_path / "second", *begun[4:], "--masks", "none").err


def test_split_from_a_file(trained_run, tmp_path):
    names = tmp_path / "cwd" / "held_out.txt"
    names.write_text("a_02.jpg\na_05.jpg\nA_06.jpg\n")
    run, trained = trained_run(write_small_scene(tmp_path / "scene"), "--eval", "--split", "held_out.txt")
    assert f"{names} holds out 1 names that no photograph has: A_06.jpg" in trained.err
    assert [view.name for view in run.views("test")] == ["a_02.jpg", "a_05.jpg"]
    assert len(run.views("train")) == 7
    assert json.loads(run.split_path.read_text())["test"] == ["a_02.jpg", "a_05.jpg"]


def test_split_that_names_no_photograph_of_the_scene(splat, scene, tmp_path):
    (tmp_path / "names.txt").write_text("other.jpg\n")
    result = splat("train", scene, *FEW_STEPS, "--eval", "--split", tmp_path / "names.txt")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "compare the names" in result.err


def test_crop(trained_run, splat, scene):
    run, _ = trained_run(scene, "--crop", "0,0,0,0.5")
    distances = np.linalg.norm(read_ply(run.ply_path(3)).means, axis=1)
    assert len(distances) == 300  # training uses all points, because photographs also show the outside
    for options, radius in (((), 0.5), (("--crop", "none"), 9), (("--crop", "0,0,0,0.3"), 0.3)):
        assert splat("export", run.path, "a.ply", "--no-bake", *options).code == 0
        exported = np.linalg.norm(read_ply(Path("a.ply")).means, axis=1)
        np.testing.assert_array_equal(exported, distances[distances <= radius])


def test_crop_start_initializes_inside_only(trained_run, splat, scene):
    run, result = trained_run(scene, "--crop", "0,0,0,0.5", "--crop-start")
    assert "outside the crop" in result.err
    assert len(read_ply(run.ply_path(3))) < 300
    result = splat("train", scene, *FEW_STEPS, "--crop", "9,9,9,0.5", "--crop-start")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "choose less strictly" in result.err


def test_crop_start_keeps_splats_of_a_file_inside_only(trained_run, splat, scene, tmp_path):
    first, _ = trained_run(scene)
    start = first.ply_path(3).rename(tmp_path / "start.ply")
    means = read_ply(start).means
    options = [*FEW_STEPS, "--init-from", start, "--crop-start", "--crop"]
    assert splat("train", scene, "-o", tmp_path / "second", *options, "0,0,0,0.5").code == 0
    kept = read_ply(RunDir(tmp_path / "second").ply_path(3)).means
    assert len(kept) == (np.linalg.norm(means, axis=1) <= 0.5).sum() < len(means)
    x, y, z = read_scene(scene).points[0].tolist()  # the splats have moved away
    refused = splat("train", scene, *options, f"{x!r},{y!r},{z!r},1e-7")
    assert "is inside of --crop" in refused.err
