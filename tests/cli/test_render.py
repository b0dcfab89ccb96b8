"""`splat render`: paths, maps, panoramas, stereo pairs and videos from the command line."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from splat_cli.commands.render import plan_job
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.cameras_json import write_cameras
from splat_cli.scene.trajectories.camera_path import CameraPath

CPU = ("--device", "cpu")


def sizes(folder):
    found = {}
    for path in sorted(folder.rglob("*.png")):
        with Image.open(path) as image:
            found[str(path.relative_to(folder))] = image.size
    return found


@pytest.mark.parametrize("kind", ["orbit", "walk", "spiral", "interpolate"])
def test_camera_paths_have_folders_of_their_name(splat, trained, tmp_path, kind):
    run = shutil.copytree(trained, tmp_path / "run")
    result = splat("render", run, "--path", kind, "--seconds", 0.1, *CPU)
    assert result.code == 0, result.err
    assert sizes(run / "renders" / kind) == {f"{i:05d}.png": (40, 30) for i in range(3)}


def test_shorter_path_removes_the_frames_of_a_longer_one(splat, trained, tmp_path):
    """A path removes its earlier frames and maps but no other files; views without a path remove nothing."""
    out = tmp_path / "cwd" / "out"
    path = ["render", trained, "-o", "out", "--path", "orbit", *CPU]
    assert splat(*path, "--frames", 4, "--depth", "--depth-format", "tiff").code == 0
    Image.new("L", (4, 3)).save(out / "00004.png")
    (out / "notes.txt").touch()
    assert splat("render", trained, "-o", "out", "--views", "test", *CPU).code == 0
    assert len(sizes(out)) == 8
    result = splat(*path, "--frames", 2, "--alpha")
    assert (result.code, "removed 2 frames of an earlier, longer path" in result.err) == (0, True)
    assert set(sizes(out)) == {
        "00000.png",
        "00001.png",
        "00004.png",
        "a_00.png",
        "a_03.png",
        "a_06.png",
        "alpha/00000.png",
        "alpha/00001.png",
    }
    assert sorted(found.name for found in (out / "depth").iterdir()) == ["00000.tiff", "00001.tiff"]
    assert (out / "notes.txt").exists()


def test_path_from_a_file_needs_no_other_cameras(splat, trained, tmp_path):
    ply = shutil.copy(RunDir(trained).ply_path(20), tmp_path / "alone.ply")
    pose = np.diag([1.0, -1, -1, 1])
    path = {"camera_path": [{"camera_to_world": pose.ravel().tolist(), "fov": 50}], "render_width": 32}
    (tmp_path / "cwd" / "fly.json").write_text(json.dumps(path | {"render_height": 24}))
    result = splat("render", ply, "--path", "fly.json", *CPU)
    assert result.code == 0, result.err
    assert sizes(tmp_path / "cwd" / "renders" / "fly") == {"00000.png": (32, 24)}


def test_path_without_a_kind_is_chosen_by_the_views(splat, trained, tmp_path):
    result = splat("render", trained, "-o", "out", "--frames", 2, "--path", *CPU)
    assert (result.code, len(sizes(tmp_path / "cwd" / "out"))) == (0, 2), result.err
    assert splat("render", trained, "--path", "--arc", 90, "--frames", 1, "-o", "arc", *CPU).code == 0
    assert "--arc" in splat("render", trained, "--arc", 90, *CPU).err


def test_file_without_cameras_gets_an_orbit(splat, trained, tmp_path):
    """The orbit shows the centre of the splats from all sides, as in `splat view`."""
    ply = shutil.copy(RunDir(trained).ply_path(20), tmp_path / "alone.ply")
    result = splat("render", ply, "--path", "orbit", "--frames", 4, "--size", "48x36", *CPU)
    assert result.code == 0, result.err
    folder = tmp_path / "cwd" / "renders" / "orbit"
    assert sizes(folder) == {f"{number:05d}.png": (48, 36) for number in range(4)}
    pictures = [np.asarray(Image.open(path)).astype(float) for path in sorted(folder.glob("*.png"))]
    assert all(picture.std() > 5 for picture in pictures)
    assert np.abs(pictures[0] - pictures[2]).mean() > 1  # seen from the other side
    assert "--cameras" in splat("render", ply, "--path", "walk", *CPU).err


def test_maps_are_written_and_kept_with_the_pictures(splat, trained, tmp_path):
    options = ["-o", "out", "--alpha", "--depth", "--normal", "--transparent", *CPU]
    result = splat("render", trained, *options)
    assert result.code == 0, result.err
    found = sizes(tmp_path / "cwd" / "out")
    assert len(found) == 12
    assert {f"{folder}a_03.png" for folder in ("", "alpha/", "depth/", "normal/")} <= set(found)
    assert "3 of them were up to date" in splat("render", trained, *options).out
    assert "were clipped" in splat("render", trained, *options, "--depth-levels", "60000").err
    ignored = splat("render", trained, *options, "--depth-levels", "9", "--depth-format", "tiff")
    assert (ignored.code, "does nothing for TIFF" in ignored.err) == (2, True)


def test_small_pictures_are_supersampled(splat, trained, tmp_path):
    def picture(name, *options):
        assert splat("render", trained, "-o", name, *options, *CPU).code == 0
        return np.asarray(Image.open(tmp_path / "cwd" / name / "a_03.png")).astype(float)

    small = ("--size", "20x15")
    fine, coarse = picture("small", *small), picture("one", *small, "--samples", 1)
    assert fine.shape == coarse.shape == (15, 20, 3)
    np.testing.assert_array_equal(fine, picture("two", *small, "--samples", 2))
    assert (fine != coarse).any()
    np.testing.assert_array_equal(picture("same"), picture("same-one", "--samples", 1))
    whole = Image.fromarray(picture("same").astype(np.uint8))
    assert np.abs(fine - np.asarray(whole.resize((20, 15), Image.Resampling.LANCZOS))).max() < 3  # rounded twice


def test_splat_scale(splat, trained, tmp_path):
    def coverage(*options):
        """Mean opacity of a picture. All scales write to the same folder; each replaces the previous picture."""
        assert splat("render", trained, "-o", "scaled", "--alpha", *options, *CPU).code == 0
        return np.asarray(Image.open(tmp_path / "cwd" / "scaled" / "alpha" / "a_03.png")).mean()

    half, full, same = coverage("--splat-scale", 0.5), coverage(), coverage("--splat-scale", 1)
    assert half < full == same < coverage("--splat-scale", 2)
    assert "0.001" in splat("render", trained, "--splat-scale", 0).err


def test_panoramas_and_stereo_pairs(splat, trained, tmp_path):
    options = [trained, "--path", "orbit", "--frames", 2, *CPU]
    around = splat("render", *options, "--projection", "equirectangular", "--size", "64x32", "-o", "around")
    assert around.code == 0, around.err
    assert set(sizes(tmp_path / "cwd" / "around").values()) == {(64, 32)}
    assert splat("render", *options, "--stereo", 0.1, "--size", "20x16", "-o", "stereo").code == 0
    assert set(sizes(tmp_path / "cwd" / "stereo").values()) == {(40, 16)}
    for wrong in (["--size", "64x64"], ["--stereo", "0.1"]):
        assert splat("render", *options, "--projection", "equirectangular", *wrong).code == 2
    circle = splat("render", *options, "--projection", "fisheye", "--size", "32x32", "-o", "circle")
    assert circle.code == 0
    assert splat("render", *options, "--projection", "fisheye", "--size", "64x32").code == 2


def test_video(splat, trained, tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    options = ["--path", "orbit", "--frames", 4, "--fps", 8, "--video", "out.mp4", "-o", "frames"]
    result = splat("render", trained, *options, *CPU)
    assert result.code == 0, result.err
    assert "8 frames per second: out.mp4" in result.out
    assert (tmp_path / "cwd" / "out.mp4").read_bytes()[4:8] == b"ftyp"


def test_paths_pass_through_cameras_in_the_order_of_their_numbers(run_copy):
    """Photographs are sorted 1, 10, 2, ...: a path through them in this order would go back and forth."""
    run = RunDir(run_copy)
    views = run.views("all")
    half = len(views) // 2
    numbers = [*range(1, 1 + half), *(10 * number for number in range(1, 1 + len(views) - half))]  # 1, 2, ..., 10, 20
    renamed = [dataclasses.replace(view, name=f"{number}.jpg") for view, number in zip(views, numbers, strict=True)]
    write_cameras(run_copy / "cameras.json", sorted(renamed, key=lambda view: view.name))
    for kind in ("interpolate", "walk"):
        job = plan_job(run_copy, path=CameraPath(kind, frames=40))
        centers = np.array([frame.center for frame in job.views])
        steps = np.linalg.norm(np.diff(centers, axis=0), axis=1)
        assert steps.sum() < 1.1 * np.linalg.norm(np.diff([view.center for view in views], axis=0), axis=1).sum()
