"""Output of commands: lines of text or, with `--json`, one JSON object; options for progress and verbosity."""

import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from splat_cli.cli.options import RareOption
from splat_cli.errors import UsageError
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


def display_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --progress, --quiet and --verbose to a command, which receives them as the Display `display`.

    UsageError if both --quiet and --verbose are given.
    """

    @click.option(
        "--progress",
        cls=RareOption,
        type=click.Choice(["auto", "bar", "plain"]),
        default="auto",
        show_default=True,
        help="Progress bar, or plain lines for log files; auto: a bar on a terminal.",
    )
    @click.option("-q", "--quiet", is_flag=True, help="Show only warnings, errors and the result.")
    @click.option("-v", "--verbose", is_flag=True, cls=RareOption, help="Show more, such as the time of each phase.")
    @functools.wraps(function)
    def with_display(*args: Any, progress: str, quiet: bool, verbose: bool, **options: Any) -> Any:
        from splat_cli.terminal.console import Display, Level

        if quiet and verbose:
            raise UsageError("--quiet and --verbose exclude each other")
        level = Level.QUIET if quiet else Level.VERBOSE if verbose else Level.NORMAL
        bar = None if progress == "auto" else progress == "bar"
        return function(*args, display=Display(level=level, bar=bar), **options)

    return with_display
