"""The published packages work in a clean environment without a compiler, from another folder."""

import os
import sys
import tomllib
import venv

import pytest

from splat_cli import __version__
from splat_cli.device.compilation.host_compiler import find_compiler
from tests.small_scene import write_small_scene
from tests.subprocesses import ROOT, finished

pytestmark = pytest.mark.wheel

FIND_RESOURCES = """
from splat_cli.io.files import resource_dir
from splat_cli.config.presets import preset_names
print(*sorted(path.name for path in resource_dir("cuda_src").rglob("*") if path.is_file()), *preset_names())
print(resource_dir("cuda_src"))
"""


def _run(*command, cwd, path=None):
    """path: the only folders with programs."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CXX")}
    if path:
        environment |= {"PATH": str(path), "XDG_CACHE_HOME": str(cwd)}
    done = finished(list(map(str, command)), cwd=cwd, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _install(folder):
    """Bin folder of a new environment with only the wheel, its dependencies and the extra cpu."""
    _run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)  # the wheel from the source archive
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=True)
    binaries = folder / "venv" / "bin"
    install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}[cpu]")
    _run(binaries / "python", *install, cwd=folder)
    return binaries


def test_wheel_has_the_command_kernels_presets_and_viewer(tmp_path):
    """One test, because several workers would each build and install the wheel.

    The demo compiles the wheel's kernels with ziglang alone, trains a few steps and packs the viewer.
    """
    pytest.importorskip("build", reason="the wheel is built with the package `build` (extra test)")
    binaries, elsewhere = _install(tmp_path), tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert _run(binaries / "splat", "--version", cwd=elsewhere) == f"splat, version {__version__}\n"
    found, place = _run(binaries / "python", "-c", FIND_RESOURCES, cwd=elsewhere).splitlines()
    kernels = {path.name for path in (ROOT / "cuda_src").rglob("*") if path.is_file()}
    presets = {path.stem for path in (ROOT / "configs").glob("*.toml")}
    assert set(found.split()) == kernels | presets
    assert "site-packages" in place
    _run(binaries / "splat", "demo", "out", "--steps", "5", "--device", "cpu", cwd=elsewhere, path=binaries)
    assert "clang" in (elsewhere / "out" / "run" / "config.toml").read_text(encoding="utf-8")
    assert (elsewhere / "out" / "splats.ply").is_file()
    _run(binaries / "splat", "export", "out/run", "page.html", cwd=elsewhere)
    assert 'id="viewer"' in (elsewhere / "page.html").read_text(encoding="utf-8")


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="later versions of Python are not for the oldest releases")
def test_the_oldest_dependencies_that_are_allowed_suffice(tmp_path):
    """The command line, photographs and pages with the lower bounds of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    compiler = project["optional-dependencies"]["cpu"] if find_compiler().linker else []  # ziglang
    oldest = [line.replace(">=", "==") for line in [*project["dependencies"], *compiler]]
    _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *oldest, cwd=tmp_path)
    write_small_scene(tmp_path / "scene")

    def splat(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return finished([str(python), "-m", "splat_cli", *arguments], cwd=tmp_path, env=environment)

    for arguments in (
        ("train", "scene", "-o", "run", "--steps", "2", "--eval", "--device", "cpu"),
        ("export", "run", "page.html"),
        ("render", "run", "--views", "test", "-o", "pictures"),
    ):
        done = splat(*arguments)
        assert (done.returncode, "Error" in done.stderr) == (0, False), done.stderr
    mistaken = splat("trian")
    assert (mistaken.returncode, mistaken.stderr.count("\n")) == (2, 1)
