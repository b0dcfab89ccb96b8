"""Commands do not replace files that a run needs, nor files of other programs."""

import hashlib
import shutil

import pytest
from PIL import Image

from splat_cli.api.splats import convert
from splat_cli.errors import UsageError
from splat_cli.render.output.video import require_video

RECORDS = [
    "config.toml", "cameras.json", "inputs.json", "split.json", "result.json", "metrics.json", "train.jsonl",
    "checkpoints/step_20.npz", "point_cloud/iteration_20/point_cloud.ply", "Point_Cloud/iteration_20/POINT_CLOUD.PLY",
]  # fmt: skip


def contents(folder):
    return {
        path: hashlib.sha256(path.read_bytes()).digest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


@pytest.mark.parametrize("name", RECORDS)
def test_exports_leave_records_of_a_run(splat, run_copy, name):
    before = contents(run_copy)
    for command in (
        ("export", run_copy, run_copy / name, "--format", "ply"),
        ("export", run_copy, run_copy / name, "--format", "html"),
        ("export", run_copy, "out.ply", "--cameras", run_copy / name),
    ):
        result = splat(*command)
        assert (result.code, contents(run_copy)) == (2, before), command
        assert "file of the run" in result.err


def test_a_mesh_leaves_trained_splats(splat, run_copy):
    pytest.importorskip("skimage")
    before = contents(run_copy)
    result = splat("mesh", run_copy, run_copy / "point_cloud/iteration_20/point_cloud.ply")
    assert (result.code, contents(run_copy)) == (2, before)
    assert "is a file of the run" in result.err


def test_cameras_replace_only_cameras(splat, run_copy, tmp_path):
    photograph = tmp_path / "photograph.jpg"
    photograph.write_bytes(b"\xff\xd8")
    result = splat("export", run_copy, "out.ply", "--cameras", photograph)
    assert (result.code, photograph.read_bytes()) == (2, b"\xff\xd8")
    assert "is not a file of cameras and would be overwritten" in result.err
    for _ in range(2):
        assert splat("export", run_copy, "out.ply", "--cameras", tmp_path / "moved.json").code == 0


def test_pages_replace_only_pages(splat, run_copy, tmp_path):
    page = tmp_path / "index.html"
    page.write_text("<html>mine</html>")
    for command in (("export", run_copy, page), ("clean", run_copy, "--preview", page)):
        result = splat(*command, "--device", "cpu") if command[0] == "clean" else splat(*command)
        assert (result.code, page.read_text()) == (2, "<html>mine</html>")
        assert "is not a page of splat" in result.err
    for _ in range(2):
        assert splat("export", run_copy, tmp_path / "own.html").code == 0


def test_the_api_keeps_the_same_files(run_copy, tmp_path):
    ply = run_copy / "point_cloud/iteration_20/point_cloud.ply"
    with pytest.raises(UsageError, match="is a file of the run"):
        convert(run_copy, ply, max_splats=1)
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(UsageError, match="is not a page of splat"):
        convert(run_copy, tmp_path / "index.html")


def test_splats_in_a_given_format_replace_no_file_of_another_kind(splat, run_copy, tmp_path):
    track = tmp_path / "scene.dat"
    track.write_bytes(b"mine")
    result = splat("export", run_copy, track, "--format", "spz")
    assert (result.code, track.read_bytes()) == (2, b"mine")
    assert "is not named like a file of splats" in result.err


def test_a_video_replaces_no_other_video(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    video = tmp_path / "walk.mp4"
    video.write_bytes(b"\0\0\0\x20ftypisom")
    with pytest.raises(UsageError, match=r"walk\.mp4 was not written by splat and would be overwritten"):
        require_video(video)


@pytest.mark.parametrize("inside", ["", "checkpoints", "point_cloud/iteration_20"])
def test_no_run_begins_inside_another(splat, scene, run_copy, inside):
    """A resume removes temporary files in all folders of its run."""
    before = contents(run_copy)
    for command in (("batch", scene, "-o", run_copy / inside), ("train", scene, "-o", run_copy / inside / "second")):
        result = splat(*command, "--steps", "2", "--device", "cpu")
        assert (result.code, contents(run_copy)) == (2, before)
        assert f"inside the run {run_copy}" in result.err


@pytest.mark.parametrize(
    "command", ["render RUN --views test -o PHOTOS --device cpu", "eval RUN --save-pictures PHOTOS --device cpu"]
)
def test_no_picture_is_written_beside_the_photograph_of_its_name(splat, run_copy, scene, tmp_path, command):
    """It would be a photograph of the next scene that is made of this folder."""
    photos = shutil.copytree(scene / "images", tmp_path / "photos")
    before = sorted(photos.iterdir())
    (photos / "a_00.jpg").rename(photos / "a_00.JPG")
    result = splat(*command.replace("RUN", str(run_copy)).replace("PHOTOS", str(photos)).split())
    assert result.code == 2
    assert "a_00.JPG was not written by splat and would have a_00.png beside it" in result.err
    assert len(list(photos.iterdir())) == len(before)


def test_pictures_with_copies_of_another_format_are_rendered_again(splat, run_copy, tmp_path):
    command = ["render", run_copy, "--views", "test", "-o", tmp_path / "out", "--device", "cpu"]
    assert splat(*command).code == 0
    for path in list((tmp_path / "out").iterdir()):
        Image.open(path).convert("RGB").save(path.with_suffix(".jpg"))
    assert splat(*command, "--background", "white").code == 0
