"""The command line inside the test's process, a small scene, and a run trained on it for a few steps."""

from dataclasses import dataclass

import pytest

from splat_cli.cli.main import run
from tests.small_scene import write_small_scene


@dataclass
class Result:
    code: int
    out: str
    err: str


@pytest.fixture
def splat(capsys, monkeypatch, tmp_path):
    """`splat("train", scene, ...)` runs the command in an empty folder; Result has exit code, stdout and stderr."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def call(*arguments):
        capsys.readouterr()
        code = run([str(one) for one in arguments])
        return Result(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def scene(tmp_path_factory):
    return write_small_scene(tmp_path_factory.mktemp("scenes") / "toy")


@pytest.fixture(scope="session")
def trained(scene, tmp_path_factory):
    """A run of 20 steps with three photographs held out, saved after 10 steps too. Not to be changed."""
    out = tmp_path_factory.mktemp("runs") / "toy"
    options = ["--device", "cpu", "--eval", "--test-every", "3", "--steps", "20", "--save-at", "10,50"]
    assert run(["train", str(scene), "-o", str(out), *options]) == 0
    return out
