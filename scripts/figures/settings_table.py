"""Prints docs/settings.md: `python scripts/figures/settings_table.py > docs/settings.md`."""

from splat_cli.config import SETTINGS
from splat_cli.config.setting import Setting, Values

_HEAD = """# Settings

Each is an option of `splat train`, a key of a preset (`--preset NAME` or `--preset FILE.toml`) and of a run's
`config.toml`. An option overrides the preset, a preset overrides the default. The last column says what restricts a
setting:

- fixed: it cannot change when a run is resumed.
- with another option, such as `--eval`: it is read only if that option is given.
- one GPU: it does not work with `--gpus`. Other settings than `color` also keep long runs from training in batches by
  default.
- not in a city: it does not work with `splat city`.

This page is printed by `python scripts/figures/settings_table.py`."""


def settings_table() -> str:
    """The page: a Markdown table for each group of settings."""
    lines, group = [_HEAD], ""
    for declared in SETTINGS.values():
        if declared.group != group:
            group = declared.group
            lines += ["", f"## {group}", "", "| key | default | accepts | description | restrictions |"]
            lines += ["| --- | --- | --- | --- | --- |"]
        default, about = declared.show(declared.default), declared.description
        lines.append(f"| `{declared.name}` | {default} | {declared.expected} | {about} | {_restrictions(declared)} |")
    return "\n".join(lines) + "\n"


def _restrictions(declared: Setting) -> str:
    """The facts of a setting, separated by semicolons."""
    facts = ["fixed"] if declared.fixed else []
    if declared.needs:
        facts.append("with " + " or ".join(f"`{option}`" for option in declared.needs.split(" or ")))
    facts += _fact("one GPU", declared.single_gpu)
    return "; ".join(facts + _fact("not in a city", declared.not_in_city))


def _fact(text: str, values: Values) -> list[str]:
    """The text in a list, with the values if it applies only to some; an empty list if it does not apply."""
    if isinstance(values, tuple):
        return [f"{text} ({', '.join(values)})"]
    return [text] if values else []


if __name__ == "__main__":
    print(settings_table(), end="")
