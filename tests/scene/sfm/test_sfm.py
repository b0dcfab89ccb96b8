"""Structure from motion on renders of the sample scene, whose cameras are known."""

import errno
import gc
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngImageFile

from splat_cli.errors import DiskError, UsageError
from splat_cli.scene import read_scene, sfm
from splat_cli.scene.sfm import SfmOptions, mapping, new_scene_folder, video
from splat_cli.scene.sfm.mapping import Mapping, camera_groups, map_photographs, size_groups
from splat_cli.scene.sfm.photographs import collect_photographs
from splat_cli.scene.sfm.video import extract_frames
from splat_cli.terminal.console import Display
from splat_cli.terminal.interrupt import Interrupted
from tests.scene.sfm.exif import camera_exif
from tests.subprocesses import HANG


@pytest.mark.slow
def test_scene_from_photographs_trains(sample, outdoors, splat, tmp_path):
    scene, printed = outdoors
    assert "photographs registered" in printed
    found, truth = read_scene(scene), {view.name: view for view in sample}
    assert len({view.fx for view in found.views}) == 1
    assert len(found.views) == 12
    assert len(found.points) > 300
    expected = np.array([truth[view.name].center for view in found.views])
    assert distance_after_alignment(np.array([view.center for view in found.views]), expected) < 0.02
    options = ("--device", "cpu", "--steps", "3", "--downscale", "4", "--init", "points", "--no-report")
    assert splat("train", scene, "-o", tmp_path / "run", *options).code == 0


def distance_after_alignment(points, expected):
    """Largest distance after the best similarity, as a share of the expected points' extent."""
    a, b = points - points.mean(axis=0), expected - expected.mean(axis=0)
    u, s, vt = np.linalg.svd(b.T @ a)
    signs = np.array([1, 1, np.sign(np.linalg.det(u @ vt))])
    moved = (s * signs).sum() / (a**2).sum() * a @ (u * signs @ vt).T
    return np.linalg.norm(moved - b, axis=1).max() / np.ptp(b, axis=0).max()


@pytest.mark.parametrize(("folder", "matcher"), [("photos", "auto"), ("photos", "sequential"), ("a b", "sequential")])
def test_photographs_that_do_not_fit_together(splat, tmp_path, folder, matcher):
    """A list of pairs cannot hold names with spaces, so COLMAP pairs the photographs itself."""
    pytest.importorskip("pycolmap")
    (tmp_path / "photos" / folder).mkdir(parents=True)
    for number in range(3):
        noise = np.random.default_rng(number).integers(0, 256, (60, 80, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / "photos" / folder / f"{number}.png")
    result = splat("sfm", tmp_path / "photos", "-o", tmp_path / "scene", "--matcher", matcher)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "fit together" in result.err
    assert not (tmp_path / "scene").exists()


def test_damaged_photographs_are_named_where_none_fit_together(splat, tmp_path):
    """COLMAP skips files that it cannot decode."""
    pytest.importorskip("pycolmap")
    (tmp_path / "photos").mkdir()
    for number in range(3):
        path = tmp_path / "photos" / f"{number}.jpg"
        Image.effect_noise((320, 240), 60).convert("RGB").save(path)
        path.write_bytes(path.read_bytes()[: 2000 if number else None])
    result = splat("sfm", tmp_path / "photos", "-o", tmp_path / "scene")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "2 are damaged: copy them again; 1.jpg " in result.err


def test_photographs_of_one_camera_are_found(tmp_path):
    cameras = dict.fromkeys(("a", "b", "sub/c"), camera_exif("Phone 7"))
    cameras |= {"tele": camera_exif("Phone 7", "tele"), "zoom": camera_exif("Phone 7", focal_length=9.0)}
    cameras |= {"other": camera_exif("Phone 8"), "none1": None, "none2": None}
    names = [f"{name}.jpg" for name in cameras]
    for name, exif in zip(names, cameras.values(), strict=True):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (8, 6)).save(tmp_path / name, **({"exif": exif} if exif else {}))
    Image.new("RGB", (8, 7)).save(tmp_path / "large.jpg", exif=camera_exif("Phone 7"))
    assert camera_groups(tmp_path, [*names, "large.jpg"]) == [["a.jpg", "b.jpg", "sub/c.jpg"]]
    assert size_groups(tmp_path, [*names, "large.jpg"]) == [["none1.jpg", "none2.jpg"]]


def test_cameras_of_png_files_are_sought_without_decoding_them(tmp_path, monkeypatch):
    names, others = ["a.png", "b.png"], ["c.png", "d.png"]
    for name in (*names, *others):
        Image.new("RGB", (8, 6)).save(tmp_path / name, **({"exif": camera_exif("Phone 7")} if name in names else {}))
    decode = Mock()
    monkeypatch.setattr(PngImageFile, "load", decode)
    assert camera_groups(tmp_path, [*names, *others]) == [names]
    assert size_groups(tmp_path, [*names, *others]) == [others]
    decode.assert_not_called()


def test_photographs_are_collected_and_others_named(tmp_path):
    for name in ("b.jpg", "deep/a.PNG", "c.webp"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 6)).save(path)
    (tmp_path / "photos" / "broken.jpg").write_bytes(b"no")
    (tmp_path / "photos" / "notes.txt").write_text("x")
    names, skipped = collect_photographs(tmp_path / "photos", tmp_path / "images")
    assert names == ["b.jpg", "c.jpg", "deep/a.PNG"]  # COLMAP reads no WebP
    with Image.open(tmp_path / "images" / "c.jpg") as image:
        assert (image.format, image.size) == ("JPEG", (8, 6))
    assert skipped == ["broken.jpg: the file is empty or not an image"]
    assert (tmp_path / "images" / "deep" / "a.PNG").is_file()
    (tmp_path / "images" / "c.jpg").write_bytes(b"converted before")
    collect_photographs(tmp_path / "photos", tmp_path / "images")
    assert (tmp_path / "images" / "c.jpg").read_bytes() == b"converted before"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_not_utf8_are_changed_for_colmap(tmp_path):
    (tmp_path / "photos").mkdir()
    for name in (b"\xe9.jpg", b"\xea.jpg", "é.jpg".encode()):
        Image.new("RGB", (8, 6)).save(tmp_path / "photos" / os.fsdecode(name), "JPEG")
    names, skipped = collect_photographs(tmp_path / "photos", tmp_path / "images")
    assert sorted(names) == ["%E9.jpg", "%EA.jpg", "é.jpg"]
    assert not skipped
    assert {path.name for path in (tmp_path / "images").iterdir()} == set(names)


@pytest.mark.parametrize("source", ["nowhere", "empty"])
def test_no_photographs(splat, tmp_path, source):
    pytest.importorskip("pycolmap")
    (tmp_path / "empty").mkdir()
    result = splat("sfm", tmp_path / source, "-o", tmp_path / "scene")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert source in result.err
    assert not (tmp_path / "scene").exists()


def test_scene_folder_with_something_in_it(splat, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    result = splat("sfm", tmp_path, "-o", tmp_path / "full")
    assert result.code == 2
    assert (tmp_path / "full" / "mine").exists()


def test_sharpest_frame_of_each_window(tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    rng = np.random.default_rng(0)
    frames = []
    for number in range(20):  # every fifth is sharp; the brightness encodes the number
        frame = np.full((48, 64, 3), 10 * number, np.uint8)
        if number % 5 == 2:
            frame = np.clip(frame + rng.integers(0, 2, (48, 64, 1)) * 60, 0, 255).astype(np.uint8)
        frames.append(frame.tobytes())
    arguments = [
        "-loglevel",
        "error",
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-s",
        "64x48",
        "-r",
        "10",
        "-i",
        "-",
        "-q",
        "2",
    ]
    command = [ffmpeg.get_ffmpeg_exe(), *arguments, tmp_path / "a.mp4"]
    subprocess.run(command, input=b"".join(frames), check=True, timeout=HANG)
    calls = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # imageio-ffmpeg leaves a pipe to the garbage collector
        names = extract_frames(tmp_path / "a.mp4", tmp_path / "images", 4, calls.append)
        gc.collect()
    assert names == [f"frame_{number:05d}.jpg" for number in (1, 2, 3, 4)]
    assert len(calls) == 4
    for index, name in enumerate(names):
        pixels = np.asarray(Image.open(tmp_path / "images" / name)).astype(float)
        assert pixels.std() > 15
        assert abs(pixels.mean() - (10 * (5 * index + 2) + 30)) < 12


def test_frames_of_an_interrupted_attempt_are_kept(tmp_path, monkeypatch):
    """Frames are complete where COLMAP has begun; those of a 360-degree camera are spheres."""
    extracted, mapped = [], []

    def extract(video, images, num, *_):
        extracted.append(num)
        images.mkdir(exist_ok=True)
        for name in ("frame_00002.jpg", "frame_00001.jpg"):
            Image.radial_gradient("L").resize((64, 32)).save(images / name)
        return ["frame_00001.jpg", "frame_00002.jpg"]

    def interrupted(scene, names, options, *args, **more):
        mapped.append((names, options.camera_model, options.one_camera))
        if len(extracted) == 2:
            (scene / "database.db").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(sfm, "require_pycolmap", lambda: None)
    monkeypatch.setattr(sfm, "extract_frames", extract)
    monkeypatch.setattr(sfm, "map_photographs", interrupted)
    (tmp_path / "a.mp4").touch()
    for _ in range(3):
        with pytest.raises(Interrupted):
            sfm.make_scene(tmp_path / "a.mp4", tmp_path / "scene", SfmOptions(), Display().counting, print)
    assert extracted == [200, 200]
    assert mapped == [(["frame_00001.jpg", "frame_00002.jpg"], "EQUIRECTANGULAR", True)] * 3


def test_frames_of_a_variable_rate_come_once_pixels_are_square_and_hdr_is_named(tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    colors = "setparams=color_trc=arib-std-b67:color_primaries=bt2020:colorspace=bt2020nc"
    filters = f"setpts=N*N/20/TB,setsar=2,format=yuv420p,{colors}"
    source = ["-f", "lavfi", "-i", "testsrc=size=64x48:rate=10:duration=1", "-vf", filters]
    command = [ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", *source, "-fps_mode", "vfr", tmp_path / "a.mp4"]
    subprocess.run(command, check=True, timeout=HANG)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        said = []
        names = extract_frames(tmp_path / "a.mp4", tmp_path / "images", 20, lambda count: None, said.append)
        gc.collect()
    frames = {(tmp_path / "images" / name).read_bytes() for name in names}
    assert 8 <= len(names) == len(frames) <= 10
    with Image.open(tmp_path / "images" / names[0]) as frame:
        assert frame.size == (128, 48)
    assert [line.partition(" is HDR: ")[0] for line in said] == [str(tmp_path / "a.mp4")]


def test_rows_of_two_times_are_separated(tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    bar = "color=black:size=64x48:rate=20:duration=1[a];color=white:size=16x48[b];[a][b]overlay=x=4*n:shortest=1"
    source = ["-f", "lavfi", "-i", f"{bar},tinterlace=interleave_top,setfield=tff"]
    options = ["-pix_fmt", "yuv422p", "-c:v", "mpeg2video", "-q:v", "1", "-flags", "+ildct+ilme"]
    subprocess.run(
        [ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", *source, *options, tmp_path / "a.mkv"], check=True, timeout=HANG
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        name = extract_frames(tmp_path / "a.mkv", tmp_path / "images", 5, lambda count: None)[2]
        gc.collect()
    pixels = np.asarray(Image.open(tmp_path / "images" / name).convert("L")).astype(int)
    assert np.abs(np.diff(pixels, axis=0)).max() < 128  # of neighbouring rows


@pytest.mark.parametrize(("size", "matrix"), [("1280x720", "bt709"), ("640x480", "bt601")])
def test_colours_without_a_matrix_are_those_of_players(tmp_path, size, matrix):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    source = f"color=0xc82828:size={size}:rate=5:duration=0.2,format=rgb24"
    filters = f"scale=out_color_matrix={matrix},format=yuv420p,setparams=colorspace=unknown"
    command = [ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-f", "lavfi", "-i", source, "-vf", filters]
    subprocess.run([*command, tmp_path / "a.mp4"], check=True, timeout=HANG)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        (name,) = extract_frames(tmp_path / "a.mp4", tmp_path / "images", 1, lambda count: None)
        gc.collect()
    pixels = np.asarray(Image.open(tmp_path / "images" / name).resize((1, 1)))[0, 0].astype(int)
    assert np.abs(pixels - [200, 40, 40]).max() <= 4


def test_a_video_of_a_phone_held_upright_is_turned_without_a_remark(tmp_path, capfd, caplog):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    program, options = ffmpeg.get_ffmpeg_exe(), ["-loglevel", "error"]
    source = ["-f", "lavfi", "-i", "testsrc=size=64x48:rate=10:duration=1"]
    subprocess.run([program, *options, *source, tmp_path / "a.mp4"], check=True, timeout=HANG)
    turned = ["-display_rotation", "90", "-i", tmp_path / "a.mp4", "-c", "copy", tmp_path / "turned.mp4"]
    subprocess.run([program, *options, *turned], check=True, timeout=HANG)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        (name,) = extract_frames(tmp_path / "turned.mp4", tmp_path / "images", 1, lambda count: None)
        gc.collect()
    with Image.open(tmp_path / "images" / name) as frame:
        assert frame.size == (48, 64)
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def test_file_that_is_not_a_video(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    (tmp_path / "a.mp4").write_bytes(b"no video")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        with pytest.raises(UsageError, match=r"a\.mp4 cannot be decoded as a video \([^()]*\):"):
            extract_frames(tmp_path / "a.mp4", tmp_path / "images", 4, print)
        gc.collect()


def test_missing_packages_are_named(tmp_path, monkeypatch):
    for module in ("pycolmap", "imageio_ffmpeg"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=r"pip install 'splat-cli\[sfm\]'"):
        map_photographs(tmp_path, [], SfmOptions(), Display().counting)
    with pytest.raises(UsageError, match=r"pip install 'splat-cli\[sfm\]'"):
        extract_frames(tmp_path / "a.mp4", tmp_path, 3, print)


def mapped(num, num_registered, num_models, scene=Path("scene")):
    return Mapping(num, [f"{i}.jpg" for i in range(num_registered, num)], 100, 0.5, 4.0, num_models, scene=scene)


def test_numbers_are_those_of_the_json_output():
    numbers = replace(mapped(10, 9, 1), gps_error=2.5).numbers()
    assert (numbers["photographs"], numbers["registered"], numbers["unregistered"]) == (10, 9, ["9.jpg"])
    assert [numbers[name] for name in ("points", "error", "track_length", "gps_error")] == [100, 0.5, 4.0, 2.5]


def test_advice_only_where_few_were_registered():
    assert mapped(10, 10, 1).advice() == []
    named = "Not registered: 9.jpg (listed in scene/unregistered.txt)"
    assert mapped(10, 9, 1).advice() == [named.replace("/", os.sep)]
    *advice, named = mapped(20, 5, 2).advice()
    assert "registered: 5.jpg, 6.jpg, 7.jpg, 8.jpg, 9.jpg and 10 more (" in named
    assert "Only 5 of 20" in advice[0]
    assert "2 groups" in advice[1]
    certain, uncertain = (replace(mapped(10, 10, 1), spread=spread).advice() for spread in (0.02, 0.04))
    assert certain == []
    assert uncertain[0].startswith("The poses are uncertain: one half of the points gives other poses than the other")


@pytest.mark.parametrize(("one_camera", "guessed"), [(None, True), (True, False), (False, False)])
def test_photographs_of_one_size_may_share_a_camera(tmp_path, monkeypatch, one_camera, guessed):
    names = ["a.jpg", "b.jpg", "c.jpg"]
    jobs = []
    found = {"models": 1, "unregistered": [], "points": 9, "error": 0.5, "track_length": 4.0} | {
        "gps_error": None,
        "spread": 0.0,
        "turns": {},
    }
    monkeypatch.setattr(mapping, "require_pycolmap", lambda: None)
    monkeypatch.setattr(mapping, "run_colmap", lambda job, *args: jobs.append(job) or found)
    (tmp_path / "images").mkdir()
    for name in names:
        Image.new("RGB", (8, 6)).save(tmp_path / "images" / name)
    Image.new("RGB", (6, 8)).save(tmp_path / "images" / "turned.jpg")
    map_photographs(tmp_path, [*names, "turned.jpg"], SfmOptions(one_camera=one_camera), Display().counting)
    assert jobs[0]["sizes"] == ([names] if guessed else [])
    assert jobs[0]["groups"] == ([names, ["turned.jpg"]] if one_camera else [])


def test_photographs_without_a_pose_are_listed(tmp_path, monkeypatch):
    found = {"models": 1, "unregistered": ["b\n.jpg", "c.jpg"], "points": 9, "error": 0.5, "track_length": 4.0}
    monkeypatch.setattr(mapping, "require_pycolmap", lambda: None)
    monkeypatch.setattr(mapping, "run_colmap", lambda *args: found | {"gps_error": None, "spread": 0.3, "turns": {}})
    made = map_photographs(tmp_path, ["a.jpg", "b\n.jpg", "c.jpg", "d.jpg"], SfmOptions(), Display().counting)
    assert (made.num_registered, made.unregistered, made.spread) == (2, ["b\n.jpg", "c.jpg"], 0.3)
    assert (tmp_path / "unregistered.txt").read_text() == "b\\n.jpg\nc.jpg\n"


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # without a file name, like the error of a write
    monkeypatch.setattr(Path, "write_text", raising(full))
    monkeypatch.setattr(Image.Image, "save", raising(full))
    with pytest.raises(DiskError, match=r"scene/\.unfinished was not written: no space left"):
        new_scene_folder(tmp_path / "scene", {}).__enter__()
    with pytest.raises(DiskError, match=r"frame_00001\.jpg was not written: no space left"):
        video._save(tmp_path, 1, np.zeros((4, 4, 3), np.uint8))


def raising(error):
    def call(*args, **more):
        raise error

    return call
