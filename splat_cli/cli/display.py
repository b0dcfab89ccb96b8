"""Options for progress and verbosity that several commands share."""

import functools
from collections.abc import Callable
from typing import Any

import click

from splat_cli.cli.options import RareOption
from splat_cli.errors import UsageError


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
