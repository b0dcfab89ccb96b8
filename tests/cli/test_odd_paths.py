"""Runs can be written and read in folders with control characters, quotes or invalid UTF-8 in their names."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from splat_cli.run.resume import resume_advice
from splat_cli.run.storage.run_dir import RunDir
from tests.small_scene import write_small_scene
from tests.subprocesses import HANG, ROOT, SPLAT

NAMES = [b"a\x7fb", b"a\xff\xfeb", b"a\nb", b'a"b\\c']


def splat_program(*arguments):
    """`splat` in its own process, with a strict encoding of the terminal."""
    command = [sys.executable, "-m", "splat_cli", *(one if isinstance(one, bytes) else str(one) for one in arguments)]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False, timeout=HANG)


def test_run_folder_can_have_any_name(scene, tmp_path):
    folder = tmp_path / os.fsdecode(b" ".join(NAMES))
    shutil.copytree(scene, folder / "scene")
    run = folder / os.fsdecode(b"run \xff")
    for command in (
        ("train", folder / "scene", "-o", run, "--steps", 2, "--init", "points", "--eval", "--device", "cpu"),
        ("train", "--resume", run, "--steps", 3, "--device", "cpu"),
        ("eval", run, "--device", "cpu"),
        ("export", run, folder / "a.html"),
        ("report", run, "--device", "cpu"),
        ("info", run),
    ):
        result = splat_program(*command, "--json")
        assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["scene"] == str(folder / "scene")


def test_paths_in_commands_that_messages_advise_are_quoted(splat, scene, trained, tmp_path):
    """Otherwise, the command would resume a run `my`."""
    run = shutil.copytree(trained, tmp_path / "my run")
    refused = splat("train", scene, "-o", run, "--device", "cpu")
    assert f"`splat train --resume '{run}'` continues it" in refused.err
    assert f"splat train --resume '{run}' --gpus 2" in resume_advice(RunDir(run), RunDir(run).config(), "--gpus 2")


def test_tensorboard_refuses_a_path_that_is_not_utf8(scene, tmp_path):
    pytest.importorskip("tensorboard")
    run = tmp_path / os.fsdecode(b"run \xff")
    ended = splat_program("train", scene, "-o", run, "--steps", 2, "--device", "cpu", "--tensorboard")
    assert ended.returncode == 2, ended.stderr
    assert b"--tensorboard needs a path in UTF-8" in ended.stderr
    assert not run.exists()


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_messages_with_odd_paths_are_one_line(tmp_path, name):
    ended = splat_program("info", os.fsencode(tmp_path) + b"/" + name)
    assert (ended.returncode, ended.stderr.count(b"\n")) == (2, 1), ended.stderr
    assert ended.stderr.decode().rstrip("\n").isprintable()


def test_paths_are_printed_unchanged(trained, tmp_path):
    target = os.fsencode(tmp_path) + b"/a\xffb"
    shutil.copytree(trained, os.fsdecode(target))
    ended = splat_program("info", target)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert target in ended.stdout


def test_characters_outside_the_outputs_encoding_are_escaped(tmp_path):
    """On Windows, files and pipes have one byte per character."""
    folder = tmp_path / "\N{GREEK CAPITAL LETTER OMEGA} \N{LATIN SMALL LETTER U WITH DIAERESIS}"
    write_small_scene(folder)
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    done = subprocess.run([*SPLAT, "info", folder], env=environment, capture_output=True, cwd=ROOT, timeout=HANG)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u03a9 \xfc" in done.stdout
