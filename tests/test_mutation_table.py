"""The tables of scripts/checks/mutate.py name files and tests that exist. Only tests kill; kernels change one line."""

from pathlib import Path

import pytest

from scripts.checks.mutants import mutants_of
from scripts.checks.mutate import (
    FAILED,
    KERNEL_TESTS,
    KERNELS,
    NOT_RUN,
    PASSED,
    TESTS,
    Outcome,
    kernel_mutants_of,
    outcome_of,
    relevant_tests,
    source_path,
)

ROOT = Path(__file__).parents[1]
SOURCE = """// a < b
__global__ void kernel(int n)
{
    if (i >= n) return;                     // past the end
    sum += 2.0f * max(a, b[3]);
}
"""


@pytest.mark.parametrize("name", [*TESTS, *KERNELS])
def test_file_and_its_tests_exist(name):
    assert (ROOT / source_path(name)).is_file()
    assert [test for test in relevant_tests(name) if not (ROOT / "tests" / test).exists()] == []


def test_each_pattern_of_kernels_is_used():
    used = {id(relevant_tests(name)) for name in KERNELS}
    assert [pattern for pattern, tests in KERNEL_TESTS.items() if id(tests) not in used] == []


def test_mutants_of_a_kernel():
    mutants = kernel_mutants_of(SOURCE)
    assert [(mutant.line, mutant.after) for mutant in mutants] == [
        (4, "if (i > n) return;"),
        (4, "if (!(i >= n)) return;"),
        (4, "nothing"),
        (5, "sum -= 2.0f * max(a, b[3]);"),
        (5, "sum += 2.0f / max(a, b[3]);"),
        (5, "sum += 2.0f * min(a, b[3]);"),
        (5, "sum += 4.0f * max(a, b[3]);"),
        (5, "sum += 2.0f * max(a, b[4]);"),
        (5, "nothing"),
    ]
    lines = SOURCE.splitlines()
    for mutant in mutants:
        changed = mutant.source.splitlines()
        assert [number for number, pair in enumerate(zip(lines, changed, strict=True), 1) if len(set(pair)) > 1] == [
            mutant.line
        ]


def test_mutants_of_a_module():
    source = "def f(a):\n    if a < 2:\n        return None\n    return max(a, 1)\n"
    assert [(mutant.line, mutant.after) for mutant in mutants_of(source)] == [
        (2, "if not a < 2:"),
        (4, "return None"),
        (2, "a <= 2"),
        (4, "min(a, 1)"),
        (2, "3"),
        (4, "2"),
    ]


def test_code_that_only_gpus_run_has_no_mutants():
    source = """#ifdef SPLAT_CPU
a += b;
#else
c += d;
#endif
#if TENSOR_CORES
e += f;
#ifdef ABSGRAD
g += h;
#endif
#else
i += j;
#endif
"""
    assert {mutant.line for mutant in kernel_mutants_of(source)} == {2, 12}


@pytest.mark.parametrize(
    ("returncode", "output", "outcome"),
    [
        (0, "3 passed, 1 skipped in 0.10s", Outcome(PASSED, "3 passed")),
        (0, "4 skipped in 0.10s", Outcome(NOT_RUN, "4 skipped in 0.10s")),
        (1, "FAILED tests/a.py::test_b[1] - x - y\n1 failed, 2 passed", Outcome(FAILED, "tests/a.py::test_b[1]")),
        (1, "ERROR tests/a.py::test_b - x\n1 error", Outcome(FAILED, "tests/a.py::test_b")),
        (
            1,
            "FAILED tests/a.py::test_b - cannot compile",
            Outcome(NOT_RUN, "FAILED tests/a.py::test_b - cannot compile"),
        ),
        (1, "", Outcome(NOT_RUN, "")),
        (1, "ERROR tests/a.py\n1 error", Outcome(NOT_RUN, "ERROR tests/a.py\n1 error")),
        (2, "ERROR tests/a.py\n1 error", Outcome(NOT_RUN, "ERROR tests/a.py\n1 error")),
        (-11, "", Outcome(FAILED, "signal 11")),
    ],
)
def test_only_a_test_that_runs_kills_a_mutant(returncode, output, outcome):
    assert outcome_of(returncode, output) == outcome
