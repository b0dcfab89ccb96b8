"""The program as a whole: help, version, exit codes, one-line errors."""

import errno
import os
import re
import signal
import sys

import click
import pytest

from splat_cli import __version__
from splat_cli.cli.main import splat as group
from splat_cli.config import SETTINGS
from tests.small_scene import write_small_scene
from tests.subprocesses import SPLAT, environment, finished

COMMANDS = (
    "demo", "doctor", "check", "sfm", "train", "batch", "city", "view", "render", "report", "info", "eval", "compare",
    "clean", "export", "mesh",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(splat, command):
    result = splat(command, "--help")
    assert result.code == 0
    assert re.search(rf"^    splat {command}( |$)", result.out.partition("Example:\n")[2], re.MULTILINE)


def test_help_lists_the_commands(splat):
    result = splat("--help")
    assert result.code == 0
    listed = [line for line in result.out.partition("First steps:")[2].partition("Example:")[0].splitlines() if line]
    commands = [line for line in listed if line.startswith("  ") and line.strip()]
    assert [line.split()[0] for line in commands] == list(COMMANDS)
    assert {len(line) - len(line[2:].partition(" ")[2].lstrip()) for line in commands} == {len("  compare  ")}
    assert "\nTraining:\n  train " in result.out


def test_help_comes_without_the_heavy_imports_and_blas_is_told_to_take_one_thread():
    """OpenBLAS reads the variable when NumPy is imported."""
    code = (
        "import os, sys; from splat_cli.__main__ import main; os.environ.pop('OPENBLAS_NUM_THREADS', None)\n"
        "sys.argv[1:] = ['--help']\n"
        "try: main()\n"
        "finally: print(os.environ['OPENBLAS_NUM_THREADS'], *sys.modules, file=sys.stderr)"
    )
    threads, *modules = finished([sys.executable, "-c", code]).stderr.split()
    assert threads == "1"
    assert "click" in modules
    assert not {"numpy", "PIL", "cupy", "tqdm", "plyfile"} & set(modules)


def test_help_describes_ranges_of_all_options_in_words(splat):
    texts = {name: " ".join(splat(name, "--help").out.split()) for name in ("demo", "render", "view")}
    assert not any("<=" in text or ">=" in text for text in texts.values())
    assert "[default: 1000] [over 0 to 1000000000]" in texts["render"]
    assert "'--port': 0 is not in the range 1 to 65535" in splat("view", "x", "--port", 0).err


def test_help_of_demo_states_one_default_of_steps(splat):
    text = " ".join(splat("demo", "--help").out.split())
    assert "Number of training steps. [default: 1200; 1 " in text


def test_help_of_train_lists_every_setting_with_its_default(splat):
    text = " ".join(splat("train", "--help-all").out.split())
    for declared in SETTINGS.values():
        assert declared.option in text
        if declared.default is not None:
            assert f"[default: {declared.show(declared.default)}" in text


@pytest.mark.parametrize("command", ["train", "batch", "city"])
def test_help_shows_the_common_options_on_one_page(splat, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    short, full = splat(command, "--help").out, splat(command, "--help-all").out
    assert len(short.splitlines()) <= 70
    options, all_options = (set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.M)) for text in (short, full))
    refused = {"--gpus", "--crop"} if command == "city" else set()
    settings = {declared.option: declared.common for declared in SETTINGS.values()}
    assert settings.keys() <= all_options
    assert options & settings.keys() == {option for option, common in settings.items() if common} - refused
    assert options & {"--host", "--cluster", "--progress", "--exposure"} == set()
    assert {"--host", "--cluster", "--progress", "--exposure"} & all_options >= {"--cluster", "--exposure"}
    assert "--help-all" in options


def test_train_help_shows_twenty_options(splat):
    names = re.findall(r"^  (?:-\w, )?(--[\w-]+)", splat("train", "--help").out, re.M)
    assert len(set(names) - {"--help", "--help-all"}) == 20


def test_errors_know_the_options_that_help_leaves_out(splat):
    assert "--scale-reg" in splat("train", "x", "--scale-rge", "1").err
    assert "--progress" in splat("train", "x", "--progres", "1").err


def test_version(splat):
    assert splat("--version").out == f"splat, version {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["trian"],
        ["train"],
        ["train", "scene", "--stepz", "3"],
        ["train", "scene", "--steps", "0"],
        ["train", "scene", "--steps", "many"],
        ["train", "scene", "--strategy", "magic"],
        ["train", "scene", "--save-at", "1,x"],
        ["train", "scene", "--preset", "magic"],
        ["train", "scene", "--preset", "magic.toml"],
        ["train", "scene", "--device", "tpu"],
        ["render", "run", "--size", "12"],
        ["render", "run", "--size", "0x5"],
        ["render", "run", "--background", "1,2,300"],
        ["render", "run", "--frames", "0"],
        ["render", "run", "--views", "all", "--cameras", "c.json"],
        ["render", "run", "--frames", "5"],
        ["render", "run", "--path", "circle"],
        ["render", "run", "--path", "orbit", "--frames", "5", "--seconds", "1"],
        ["render", "run", "--focus", "0,0,0"],
        ["render", "run", "--up", "0,0,1"],
        ["render", "run", "--depth-levels", "10"],
        ["render", "run", "--transparent", "--background", "white"],
        ["render", "run", "--video", "out.avi"],
        ["render", "run", "--stereo", "0"],
        ["render", "run", "--stereo", "inf"],
        ["render", "run", "--path", "orbit", "--fps", "nan"],
        ["render", "run", "--depth", "--depth-levels", "nan"],
        ["export", "run", "out.obj"],
        ["export", "run", "out.ply", "--sh-degree", "4"],
        ["export", "run", "out.ply", "--min-opacity", "2"],
        ["export", "out.ply"],
        ["export", "run", "out.ply", "--min-opacity", "nan"],
        ["export", "run", "out.ply", "--scale", "nan"],
        ["export", "run", "out.ply", "--max-size", "inf"],
        ["export", "run", "out.ply", "--rotate", "1,2"],
        ["export", "run", "out.ply", "--translate", "1,2,inf"],
        ["export", "run", "out.ply", "--crop", "1,2"],
        ["export", "run", "out.ply", "--max-splats", "0"],
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(splat, arguments, tmp_path):
    result = splat(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("Error: ")
    assert result.err.count("\n") == 1
    assert "run does not exist" not in result.err  # the mistake is reported before anything is read
    assert list((tmp_path / "cwd").iterdir()) == []


def test_wrong_value_names_the_expected_values(splat):
    message = "Error: --steps 0: expected a whole number, 1 to 10000000 (see 'splat train --help')\n"
    assert splat("train", "x", "--steps", "0").err == message


def test_misspelt_command_gets_a_suggestion(splat, tmp_path):
    assert "No such command 'trian': did you mean 'train'?" in splat("trian", "scene").err
    assert "there are demo, doctor, check, sfm, train" in splat("photos/garden").err
    assert f"No such command '{tmp_path}': did you mean `splat train {tmp_path}`?" in splat(tmp_path).err
    assert re.search("No such option.*--trian", splat("--trian").err)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--iterations", "30000"], "No such option '--iterations': here it is --steps"),
        (["--moments", "bf16"], "'--moments' was removed: they always take half the memory"),
        (["-s", "photos", "-m", "out"], "here it is the argument SCENE"),
        (["--save_iterations=7000"], "here it is --save-at"),
        (["--cap-max", "9"], "No such option '--cap-max': here it is --max-splats"),
        (["--cap_max", "9"], "here it is --max-splats"),
        (["--export-every", "9"], "here it is --save-at STEPS"),
        (["--max-resolution", "9"], "here it is --max-size"),
        (["--frames", "9"], "here it is `splat sfm PHOTOS --frames`, before `splat train` of its scene"),
        (["--stepz", "3"], "No such option '--stepz': did you mean '--steps'? (see 'splat train --help')"),
    ],
)
def test_options_of_other_trainers_are_translated(splat, options, message):
    result = splat("train", *options)
    assert result.code == 2
    assert message in result.err


@pytest.mark.parametrize("option", [["--max_splats", "77"], ["--max_splats=77"]])
def test_underscores_in_options_work(splat, scene, tmp_path, option):
    result = splat("train", scene, "--device", "cpu", "--steps", "1", "--no_report", "-o", tmp_path / "a_b", *option)
    assert result.code == 0, result.err
    assert "max_splats = 77" in (tmp_path / "a_b/config.toml").read_text()


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "Interrupted"),
        (MemoryError(), 1, "Error: out of memory; use fewer splats or smaller photographs"),
        (MemoryError("8 GiB"), 1, "Error: out of memory: 8 GiB; use fewer splats or smaller photographs"),
        (OSError(errno.ENOSPC, "full", "a.ply"), 1, "Error: no space left on the disk for a.ply"),
        (OSError(errno.ENAMETOOLONG, "too long", "aa"), 2, "Error: aa cannot be used: too long; name another path"),
        (
            RuntimeError("can't start new thread"),
            2,
            "Error: cannot start another thread: raise the limit of memory or of processes (ulimit -v, -u)",
        ),
        (RuntimeError("Symlink loop from 'a'"), 2, "Error: Symlink loop from 'a'; name another path"),
        (ValueError("two\nlines"), 1, "Error: ValueError: two lines (--debug shows where)"),
    ],
)
def test_failures_are_one_line(splat, monkeypatch, error, code, message):
    @click.command
    def failing():
        raise error

    monkeypatch.setattr(type(group), "get_command", lambda self, ctx, name: failing)
    result = splat("anything")
    assert (result.code, result.err.strip()) == (code, message)
    assert "Traceback" in splat("anything", "--debug").err


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v limits the address space on Linux")
def test_training_in_a_small_address_space(tmp_path):
    """Without fewer arenas and threads, threads failed to start from 300 to 600 MiB, and OpenBLAS ended the process."""
    scene, limit = write_small_scene(tmp_path / "scene"), (400 + 20 * (os.cpu_count() or 1)) << 10  # KiB
    for name, kibibytes in (("compile", "unlimited"), ("limited", str(limit))):
        train = [*SPLAT, "train", scene, "-o", tmp_path / name, "--steps", "2", "--device", "cpu", "--no-report"]
        result = finished(["sh", "-c", 'ulimit -v "$0" && exec "$@"', kibibytes, *train], env=environment())
        assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_the_result_is_printed_has_its_exit_code_and_no_traceback(number, code):
    program = (
        "import os, signal; from splat_cli.cli import main; from splat_cli.cli.display import Output\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"Output.show = lambda *_: os.kill(os.getpid(), {number:d})\n"
        "import sys; sys.argv = ['splat', 'doctor']; main.main()"
    )
    result = finished([sys.executable, "-c", program])
    assert (result.returncode, result.stderr) == (code, "")
