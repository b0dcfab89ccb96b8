"""PlayCanvas's splat-transform as the other side; `npm install --prefix tests/interop` brings it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "node_modules/@playcanvas/splat-transform/bin/cli.mjs"


@pytest.fixture(scope="session")
def splat_transform():
    """Calls splat-transform with arguments; skips where it is not there."""
    node = shutil.which("node")
    if node is None or not PROGRAM.is_file():
        pytest.skip("no splat-transform: needs Node.js and `npm install --prefix tests/interop`")

    def call(*arguments):
        command = [node, PROGRAM, "--quiet", "--overwrite", *arguments]
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env=os.environ)
        assert result.returncode == 0, result.stdout + result.stderr

    return call
