"""With sanitizers, correct kernels pass, and a write past an array is reported with its line."""

import os
import re
import sys
from pathlib import Path

import pytest

from splat_cli.device import open_backend
from splat_cli.device.compilation.host_compiler import find_compiler, sanitizer_environment
from splat_cli.errors import DeviceError
from tests.subprocesses import finished

KERNELS = Path(__file__).parents[1] / "kernels"
RUN = """
import numpy as np
from pathlib import Path
from splat_cli.device import open_backend
backend = open_backend("cpu", sanitize=True, sources=Path({kernels!r}))
x = np.arange(300 * 128, dtype=np.int32)
backend.kernel("plain", "reverse")((300,), (128,), x, 2)
assert (x == np.arange(300 * 128)).all()
out = np.zeros((96, 7), np.int32)
backend.kernel("plain", "warp_operations")((1,), (96,), x[:96], out)
v, sums, blocks = np.ones((8, 4, 32), np.float32), np.zeros(9, np.float32), np.zeros(8, np.float32)
backend.kernel("sums", "lane_sums")((8,), (32, 4), v, sums, blocks, 9)
assert (sums == v.size).all()
print("correct kernels have passed", flush=True)
y = np.zeros({size}, np.float32)
backend.kernel("plain", "write_at")((1,), (32,), y, {offset})
print("the end", flush=True)
"""


@pytest.fixture(scope="module")
def environment():
    try:
        return os.environ | sanitizer_environment(find_compiler(sanitize=True))
    except DeviceError as error:
        pytest.skip(str(error))


def run(environment, size, offset):
    code = RUN.format(kernels=str(KERNELS), size=size, offset=offset)
    return finished([sys.executable, "-c", code], env=environment)


def test_correct_kernels_pass(environment):
    result = run(environment, size=1000, offset=968)
    assert result.returncode == 0, result.stderr
    assert "the end" in result.stdout


def test_write_past_an_array(environment):
    result = run(environment, size=1000, offset=969)
    assert result.returncode != 0
    assert "correct kernels have passed" in result.stdout
    line = next(
        n for n, text in enumerate((KERNELS / "plain.cu").read_text().splitlines(), 1) if "void write_at" in text
    )
    assert "heap-buffer-overflow" in result.stderr
    assert re.search(rf"write_at.*plain\.cu:{line}", result.stderr), result.stderr


def test_not_preloaded():
    if "LD_PRELOAD" in os.environ:
        pytest.skip("the sanitizer libraries are loaded")
    with pytest.raises(DeviceError, match=r"start with scripts/checks/sanitized.py"):
        open_backend("cpu", sanitize=True)
