"""Prints docs/settings.md: `python scripts/figures/settings_table.py > docs/settings.md`."""

from splat_cli.config import SETTINGS

_HEAD = """# Settings

Each is an option of `splat train`, a key of a preset (`--preset NAME` or `--preset FILE.toml`) and of a run's
`config.toml`. An option overrides the preset, a preset overrides the default. This page is printed by
`python scripts/figures/settings_table.py`."""


def settings_table() -> str:
    """The page: a Markdown table for each group of settings."""
    lines, group = [_HEAD], ""
    for declared in SETTINGS.values():
        if declared.group != group:
            group = declared.group
            lines += ["", f"## {group}", "", "| key | default | accepts | what it is |", "| --- | --- | --- | --- |"]
        default = declared.show(declared.default)
        lines.append(f"| `{declared.name}` | {default} | {declared.expected} | {declared.help} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(settings_table(), end="")
