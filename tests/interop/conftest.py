"""Other programs to exchange files with; `npm install --prefix tests/interop` installs them."""

import shutil
from pathlib import Path

import pytest

from tests.subprocesses import finished

HERE = Path(__file__).parent
SPLAT_TRANSFORM = HERE / "node_modules/@playcanvas/splat-transform/bin/cli.mjs"


def _program(package, *command):
    """Calls Node.js with the command and more arguments, and returns its output; skips without the package."""
    node = shutil.which("node")
    if node is None or not (HERE / "node_modules" / package).is_dir():
        pytest.skip(f"no {package}: needs Node.js and `npm install --prefix tests/interop`")

    def call(*arguments):
        whole = list(map(str, (node, *command, *arguments)))
        result = finished(whole)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    return call


@pytest.fixture(scope="session")
def splat_transform():
    """PlayCanvas's splat-transform: IN OUT, and options."""
    return _program("@playcanvas/splat-transform", SPLAT_TRANSFORM, "--quiet", "--overwrite")


@pytest.fixture(scope="session")
def spark():
    """Spark: IN OUT.spz."""
    return _program("@sparkjsdev/spark", HERE / "spark.mjs")


@pytest.fixture(scope="session")
def adobe_spz():
    """Niantic's library with Adobe's extensions: IN.spz OUT.spz AXES."""
    return _program("@adobe/spz", HERE / "adobe_spz.mjs")
