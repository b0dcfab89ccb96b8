"""The JavaScript viewer in splat_cli/viewer/static is the output of scripts/viewer/bundle.py for pinned packages."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from scripts.viewer.bundle import CHECKSUMS, HERE, STATIC, checksums
from tests.subprocesses import finished

NAMES = ("supersplat-viewer.js", "supersplat-viewer.css", "LICENSES.txt")


def test_shipped_files_have_their_checksums():
    files = {name: (STATIC / name).read_text(encoding="utf-8") for name in NAMES}
    assert checksums(files) == json.loads(CHECKSUMS.read_text())


def test_every_package_of_the_lock_file_has_a_version_and_a_checksum():
    lock = json.loads((HERE / "package-lock.json").read_text())["packages"]
    root = lock.pop("")
    assert root["dependencies"] == json.loads((HERE / "package.json").read_text())["dependencies"]
    assert all(package["version"] and package["integrity"].startswith("sha512-") for package in lock.values())


def test_bundle_is_reproducible():
    """Needs npm's registry."""
    npm = shutil.which("npm") or pytest.skip("no npm")
    if finished([npm, "view", "esbuild@0.28.2", "version"], cwd=Path(STATIC)).returncode:
        pytest.skip("npm's registry does not answer")
    done = finished([sys.executable, str(HERE / "bundle.py"), "--check"])
    assert done.returncode == 0, done.stdout + done.stderr
