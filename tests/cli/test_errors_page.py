"""docs/errors.md quotes the messages that the program prints."""

from pathlib import Path

import pytest

from tests.error_cases import CASES, HEAD, message_of

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text()


def test_head():
    assert PAGE.startswith(HEAD), "change it in tests/error_cases.py"


@pytest.mark.parametrize("case", [pytest.param(case, id=case.title) for case in CASES])
def test_message(case, tmp_path):
    message = message_of(case, tmp_path)
    assert f"## {case.title}\n" in PAGE
    assert f"{message}\n" in PAGE, "run: python -m tests.error_cases > docs/errors.md"
