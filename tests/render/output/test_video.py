"""Videos of rendered images, read back with ffmpeg."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from splat_cli.errors import DiskError, SplatError, UnwritableError, UsageError
from splat_cli.render.images import save_png
from splat_cli.render.output.video import require_video, write_video

ffmpeg = pytest.importorskip("imageio_ffmpeg")


def pictures(folder, count=6, width=41, height=31):
    """A grey ramp that gets brighter."""
    paths = [folder / f"{i}.png" for i in range(count)]
    for i, path in enumerate(paths):
        row = np.linspace(20, 120, width)[None, :, None] + 20 * i
        save_png(path, np.broadcast_to(row, (height, width, 3)).astype(np.uint8))
    return paths


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # ffmpeg's reader leaves pipes open
def test_video_has_all_frames_in_order(tmp_path):
    done = []
    write_video(tmp_path / "a.mp4", pictures(tmp_path), 12, done.append)
    frames = ffmpeg.read_frames(str(tmp_path / "a.mp4"))
    properties = next(frames)
    assert (properties["size"], properties["fps"], properties["codec"]) == ((40, 30), 12, "h264")
    levels = [np.frombuffer(frame, np.uint8).reshape(30, 40, 3) for frame in frames]
    assert len(levels) == len(done) == 6
    expected = np.linspace(20, 120, 41)[:40]
    for i, level in enumerate(levels):
        np.testing.assert_allclose(level[15].mean(axis=1), expected + 20 * i, atol=4)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".mp4"] + [".png"] * 6


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_video_keeps_colors_and_names_their_space(tmp_path):
    """Colours within one level, if decoded exactly: ffmpeg's fast conversion to RGB rounds down."""
    colors = np.uint8([[200, 60, 30], [30, 160, 90], [101, 101, 101]])
    for i, color in enumerate(colors):
        save_png(tmp_path / f"{i}.png", np.broadcast_to(color, (64, 96, 3)))
    write_video(tmp_path / "a.mp4", sorted(tmp_path.glob("*.png")), 12, lambda count: None)
    exact = ["-vf", "scale=flags=accurate_rnd+full_chroma_int+full_chroma_inp+bicubic"]
    frames = ffmpeg.read_frames(str(tmp_path / "a.mp4"), output_params=exact)
    next(frames)
    for color, frame in zip(colors, frames, strict=True):
        assert np.abs(np.frombuffer(frame, np.uint8).reshape(64, 96, 3).astype(int) - color).max() <= 1
    read = subprocess.run([ffmpeg.get_ffmpeg_exe(), "-i", tmp_path / "a.mp4"], capture_output=True, text=True)
    assert re.search(r"yuv420p\(tv, bt709[,)]", read.stderr)  # one name: the same matrix, primaries and transfer


@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("cat > /dev/null; echo part > $last; echo 'no space\nleft' >&2; exit 1", "no space left"),
        ("exit 3", "exit code 3"),
        ("cat > /dev/null", "exit code 0"),
        ("kill -SEGV $$", "signal SIGSEGV"),
    ],
)
def test_failure_of_ffmpeg_keeps_the_earlier_video(tmp_path, monkeypatch, capfd, script, reason):
    """For example, the disk is full when the encoder finishes."""
    program = tmp_path / "ffmpeg"
    program.write_text(f"#!/bin/sh\nfor last; do :; done\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(ffmpeg, "get_ffmpeg_exe", lambda: str(program))
    (tmp_path / "a.mp4").write_bytes(b"earlier")
    with pytest.raises(SplatError, match=rf"a\.mp4 was not written: ffmpeg failed \({reason}\); the images are kept"):
        write_video(tmp_path / "a.mp4", pictures(tmp_path, 40), 12, lambda count: None)
    assert (tmp_path / "a.mp4").read_bytes() == b"earlier"
    assert not list(tmp_path.glob(".*"))
    assert capfd.readouterr() == ("", "")


def test_images_of_different_sizes_are_refused(tmp_path):
    both = [*pictures(tmp_path, 1), *pictures(tmp_path / "b", 1, width=50)]
    with pytest.raises(UsageError, match="--size"):
        write_video(tmp_path / "a.mp4", both, 10, print)
    assert not (tmp_path / "a.mp4").exists()


def test_other_kinds_of_video_are_refused():
    with pytest.raises(UsageError, match=r"\.mp4"):
        require_video(Path("a.avi"))


def test_unwritable_path_is_refused_before_rendering(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.mp4").mkdir()
    for path in (tmp_path / "file" / "a.mp4", tmp_path / "folder.mp4"):
        with pytest.raises(UnwritableError, match="cannot be written"):
            require_video(path)
    require_video(tmp_path / "new" / "a.mp4")
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="needs a shell")
def test_full_disk_gives_a_plain_message(tmp_path, monkeypatch):
    program = tmp_path / "ffmpeg"
    program.write_text(
        "#!/bin/sh\ncat > /dev/null; echo '[out#0/mp4 @ 0x5] Error: No space left on device' >&2; exit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(ffmpeg, "get_ffmpeg_exe", lambda: str(program))
    with pytest.raises(DiskError, match=r"a\.mp4 was not written: no space left on the disk; free some there"):
        write_video(tmp_path / "a.mp4", pictures(tmp_path), 12, lambda count: None)


def test_a_video_of_this_program_may_be_replaced(tmp_path):
    write_video(tmp_path / "a.mp4", pictures(tmp_path, 2), 12, lambda count: None)
    require_video(tmp_path / "a.mp4")
