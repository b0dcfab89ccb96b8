"""The Dockerfile: linted if hadolint is installed, and with extras that exist."""

import re
import shutil
import tomllib

import pytest

from tests.subprocesses import ROOT, finished

DOCKERFILE = ROOT / "Dockerfile"


def test_hadolint_finds_nothing():
    program = shutil.which("hadolint") or pytest.skip("no hadolint: extra dev")
    found = finished([program, DOCKERFILE])
    assert (found.returncode, found.stdout) == (0, "")


def test_extras_exist():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extras in re.findall(r"/src\[(.+?)\]", DOCKERFILE.read_text()):
        assert set(extras.split(",")) <= declared.keys()


def test_docker_does_not_ignore_files_of_the_build():
    """Every file and folder that pyproject.toml names for the wheel."""
    kept = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*wheel["packages"], *wheel["force-include"], project["project"]["readme"], "LICENSE", "pyproject.toml"}
    assert needed <= set(kept)
