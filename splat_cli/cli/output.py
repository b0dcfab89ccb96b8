"""Output of commands: lines of text, or with `--json` one JSON object."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from splat_cli.terminal.lines import wrapped


@dataclass(frozen=True)
class Output:
    """Result of a command as text and as JSON; `main` prints it."""

    lines: Sequence[str]
    data: Mapping[str, Any]
    exit_code: int = 0

    def show(self, as_json: bool) -> None:
        """Print the text or the JSON to standard output."""
        click.echo(to_json(self.data) if as_json else "\n".join(wrapped(line, sys.stdout) for line in self.lines))


def to_json(data: Mapping[str, Any]) -> str:
    """One line of JSON; paths become strings."""
    return json.dumps(data, default=_plain, allow_nan=False)


def _plain(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
