"""Illegal operations of a kernel end the process with a message, without a hang or garbage."""

import re
import sys
from pathlib import Path

import pytest

from tests.subprocesses import finished

KERNELS = Path(__file__).parent / "kernels"
RUN = """
import numpy as np
from pathlib import Path
from splat_cli.device import open_backend
backend = open_backend("cpu", threads=1, sources=Path({kernels!r}))
x = np.zeros(64, np.int32)
backend.kernel("plain", {name!r})((1,), (32,), x{args})
"""


def run(name, args=""):
    code = RUN.format(kernels=str(KERNELS), name=name, args=args)
    return finished([sys.executable, "-c", code])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("divergent", r"plain.cu:\d+ and\nsplat: kernel divergent, block .0, 0, 0., thread .16, 0, 0.: .*plain.cu:\d+"),
        ("missing_lane", "splat: kernel missing_lane, .*(never comes|wait elsewhere)"),
    ],
)
def test_divergence(name, message):
    result = run(name)
    assert result.returncode != 0
    assert re.search(message, result.stderr), result.stderr


def test_stack_overflow_does_not_reach_a_neighbour():
    assert run("overflow", ", 3").returncode == 0
    assert run("overflow", ", 1000").returncode == -11  # stopped by a guard page
