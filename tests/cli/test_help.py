"""Help on narrow terminals."""

import re

import pytest

from splat_cli.cli.main import _COMMANDS


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
@pytest.mark.parametrize("command", ["", *_COMMANDS])
def test_help_is_not_wider_than_the_terminal(splat, monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    text, _, _ = splat(*command.split(), "--help").out.partition("Example:\n")  # commands stay in one line
    width = max(map(len, text.splitlines()))
    assert min(columns, 80) * 0.8 < width <= min(columns, 80) - 2


def test_names_of_options_break_between_choices(splat, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    lines = splat("sfm", "--help").out.splitlines()
    start = lines.index("  --camera-model [SIMPLE_PINHOLE|")
    assert lines[start + 1].startswith("    PINHOLE|SIMPLE_RADIAL|")
    assert "             COLMAP camera model." in lines[start + 1 :]


@pytest.mark.parametrize(
    ("command", "titles"),
    [
        ("render", "Options Camera Picture Maps Panoramas, General"),
        ("export", "Options Splats Scale, Contents Levels General"),
    ],
)
def test_sections_of_a_long_help(splat, command, titles):
    text = splat(command, "--help").out
    assert re.findall(r"^(\S+).*:$", text, re.MULTILINE) == titles.split()
    path = text.index("\n  --path") if command == "render" else text.index("--start-view")
    assert text.index("Options:\n") < path < text.index("General:") < text.index("--progress [")
