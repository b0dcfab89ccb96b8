"""Output and files of each command on a small run."""

import functools
import json
import shlex
import shutil

import numpy as np
import pytest
from PIL import Image

from splat_cli.config.presets import load_config
from splat_cli.gaussians.ply import read_ply
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.sample import make_sample_scene


def _pixels(path):
    with Image.open(path) as picture:
        return np.asarray(picture)


def test_train_writes_all_files_of_the_run(trained):
    run = RunDir(trained)
    assert run.saved_steps() == [10, 20]
    settings = {"eval": True, "test_every": 3, "steps": 20, "save_at": (10, 50), "batch": 1, "appearance": "none"}
    assert run.config() == load_config(None, settings)
    assert len(json.loads(run.cameras_path.read_text())) == 9
    assert not list(trained.rglob(".*"))


def test_train_evaluates_at_the_saved_steps(trained):
    metrics = RunDir(trained).metrics()
    assert "numbers 0, 3, 6, ..." in metrics["protocol"]
    assert list(metrics["steps"]) == ["10", "20"]
    for entry in metrics["steps"].values():
        assert list(entry["per_image"]) == ["a_00.jpg", "a_03.jpg", "a_06.jpg"]
        mean = np.mean([one["psnr"] for one in entry["per_image"].values()])
        assert entry["psnr"] == pytest.approx(mean)
        assert entry["num_splats"] > 0
        assert entry["seconds"] > 0


def test_train_keeps_a_log(trained):
    lines = [json.loads(line) for line in RunDir(trained).log.path.read_text().splitlines()]
    *_, figures, phases = lines
    assert figures["step"] == phases["step"] == 20
    assert figures.keys() == {"step", "loss", "psnr", "num_splats", "seconds", "steps_per_second", "memory_bytes"}
    assert figures["steps_per_second"] > 0
    assert figures["memory_bytes"] > 1e6
    assert {"starting", "camera poses", "reading the scene", "training steps", "measuring"} <= phases["phases"].keys()


def test_train_names_and_numbers_runs_by_the_scene(splat, scene, tmp_path):
    for expected in ("runs/toy", "runs/toy-2"):
        result = splat("train", scene, "--device", "cpu", "--steps", 2)
        assert result.code == 0, result.err
        assert f"Run: {expected}\n" in result.out
        assert (tmp_path / "cwd" / expected / "point_cloud/iteration_2/point_cloud.ply").is_file()


def test_train_names_omitted_photographs(splat, scene, tmp_path):
    broken = shutil.copytree(scene, tmp_path / "broken")
    (broken / "images" / "a_01.jpg").unlink()
    result = splat("train", broken, "--device", "cpu", "--steps", 2)
    assert "left out 1 photograph: a_01.jpg: " in result.err
    (broken / "images" / "a_02.jpg").write_bytes(b"")
    result = splat("train", broken, "--device", "cpu", "--steps", 2)
    assert result.code == 0, result.err
    assert "left out 2 photographs: a_01.jpg: " in result.err


def test_images_folder_is_remembered_as_an_absolute_path(splat, scene, tmp_path):
    moved = shutil.copytree(scene, tmp_path / "moved")
    (moved / "images").rename(tmp_path / "cwd" / "photos")
    assert splat("train", moved, "--images", "photos", "--device", "cpu", "--steps", 2, "-o", "run").code == 0
    assert RunDir(tmp_path / "cwd" / "run").config().images == str(tmp_path / "cwd" / "photos")


def test_render_writes_the_held_out_views(splat, run_copy):
    result = splat("render", run_copy, "--device", "cpu")
    assert result.code == 0, result.err
    pictures = sorted((run_copy / "renders" / "test").iterdir())
    assert [picture.name for picture in pictures] == ["a_00.png", "a_03.png", "a_06.png"]
    assert _pixels(pictures[0]).shape[1::-1] == (40, 30)


def test_render_a_path_at_another_size_on_white(splat, trained, tmp_path):
    options = ["--path", "interpolate", "--frames", 3, "--size", "20x16", "--background", "white", "--views", "all"]
    result = splat("render", trained, "-o", "frames", "--device", "cpu", *options)
    assert result.code == 0, result.err
    pictures = sorted((tmp_path / "cwd" / "frames").iterdir())
    assert [picture.name for picture in pictures] == ["00000.png", "00001.png", "00002.png"]
    assert _pixels(pictures[0]).shape[1::-1] == (20, 16)


def test_render_a_ply_from_cameras(splat, trained, tmp_path):
    ply = shutil.copy(RunDir(trained).ply_path(20), tmp_path / "alone.ply")
    assert splat("render", ply, "--device", "cpu").code == 2
    result = splat("render", ply, "--cameras", trained / "cameras.json", "--device", "cpu")
    assert result.code == 0, result.err
    assert len(list((tmp_path / "cwd" / "renders" / "cameras").iterdir())) == 9


def test_background_shows_without_splats(splat, trained, tmp_path):
    for colour, corner in (("black", 0), ("255,255,255", 255)):
        out = tmp_path / colour
        options = ["--background", colour, "-o", out]
        assert splat("render", trained, *options, "--device", "cpu", "--size", "400x30").code == 0
        assert _pixels(out / "a_00.png")[0, 0].tolist() == [corner] * 3


def test_export_keeps_the_requested_splats(splat, trained, tmp_path):
    source = read_ply(RunDir(trained).ply_path(20))
    result = splat("export", trained, "all.ply", "--no-bake")
    assert result.code == 0, result.err
    for name, array in read_ply(tmp_path / "cwd" / "all.ply").arrays().items():
        np.testing.assert_array_equal(array, source.arrays()[name])
    assert splat("export", trained, "less.ply", "--no-bake", "--sh-degree", 1, "--min-opacity", 0.1).code == 0
    less = read_ply(tmp_path / "cwd" / "less.ply")
    opacity = 1 / (1 + np.exp(-source.logit_opacities.astype(float)))
    assert less.sh_degree == 1
    assert len(less) == (opacity >= 0.1).sum()


def test_train_ends_with_the_next_commands(splat, scene, tmp_path):
    """Suggested commands can be pasted: paths with spaces are quoted."""
    run = tmp_path / "my runs" / "toy"
    lines = splat("train", scene, "--device", "cpu", "--steps", 2, "--no-report", "-o", run).out.splitlines()[-3:]
    commands = [shlex.split(line.partition(":")[2]) for line in lines]
    assert commands == [
        ["splat", "view", str(run)],
        ["splat", "render", str(run), "--path"],
        ["splat", "export", str(run), "toy.html"],
    ]
    assert splat(*commands[2][1:]).code == 0


def test_export_bakes_antialiasing_into_sizes_and_opacities_alone(splat, trained, tmp_path):
    assert RunDir(trained).config().antialias
    source = read_ply(RunDir(trained).ply_path(20)).arrays()
    assert splat("export", trained, "baked.ply").code == 0
    baked = read_ply(tmp_path / "cwd" / "baked.ply").arrays()
    assert (baked.pop("log_scales") <= source.pop("log_scales")).all()
    assert np.abs(baked.pop("logit_opacities") - source.pop("logit_opacities")).max() > 0.01
    for name, array in baked.items():
        np.testing.assert_array_equal(array, source[name])


def test_info_of_scene_run_and_ply(splat, scene, trained):
    text = splat("info", scene).out
    assert "photographs" in text
    assert "40x30" in text
    text = splat("info", trained).out
    assert "10, 20" in text
    assert "PSNR" in text
    text = splat("info", RunDir(trained).ply_path(20)).out
    assert "SH degree" in text
    assert "opacity" in text


def test_demo_makes_everything(splat, tmp_path, monkeypatch):
    small = functools.partial(make_sample_scene, num_views=12, width=64, height=48)
    monkeypatch.setattr("splat_cli.commands.demo.make_sample_scene", small)
    result = splat("demo", "--device", "cpu", "--steps", 3)
    assert result.code == 0, result.err
    out = tmp_path / "cwd" / "splat-demo"
    for place in ("scene/sparse/0/images.bin", "run/metrics.json", "path/00059.png", "path.webp", "splats.ply"):
        assert (out / place).is_file()
        assert str(out.relative_to(tmp_path / "cwd")) in result.out
