"""Completion in a shell, as the README sets it up."""

import pytest

from splat_cli.cli.main import run


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("splat ex", "export"), ("splat export --min", "--min-opacity"), ("splat train --lr-g", "--lr-grid")],
)
def test_shell_completes_commands_and_options(capsys, monkeypatch, typed, expected):
    monkeypatch.setenv("_SPLAT_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(typed.count(" ")))
    with pytest.raises(SystemExit):
        run([])
    assert expected in capsys.readouterr().out
