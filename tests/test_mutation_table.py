"""The table of scripts/checks/mutate.py names modules and tests that exist."""

from pathlib import Path

import pytest

from scripts.checks.mutate import TESTS

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("module", TESTS)
def test_module_and_its_tests_exist(module):
    assert (ROOT / "splat_cli" / f"{module}.py").is_file()
    assert [name for name in TESTS[module] if not (ROOT / "tests" / name).exists()] == []
