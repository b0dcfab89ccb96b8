"""The tables of scripts/checks/mutate.py name files and tests that exist; mutants of kernels change one line."""

from pathlib import Path

import pytest

from scripts.checks.mutate import KERNEL_TESTS, KERNELS, TESTS, kernel_mutants_of, relevant_tests, source_path

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
