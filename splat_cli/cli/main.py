"""The command `splat`: dispatch to subcommands, help that fits the terminal, errors as one line and an exit code."""

import codecs
import errno
import importlib
import io
import os
import re
import shutil
import sys
import traceback
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import click

from splat_cli import __version__
from splat_cli.cli.display import Output, to_json
from splat_cli.errors import (
    SplatError,
    UsageError,
    escape_unprintable,
    kernel_error_before,
    name_advice,
    one_line,
    quoted,
)
from splat_cli.io.files import is_full
from splat_cli.terminal.interrupt import Interrupted, interrupt_code, raise_on_signals
from splat_cli.terminal.lines import wrapped

_MIN_WIDTH = 20
_NARROW = 60
"""Width in columns below which descriptions are printed below the names of options."""


class HelpFormatter(click.HelpFormatter):
    """Formats help to the width of the terminal, up to click's 80 columns."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        super().__init__(indent_increment, width, max_width)
        if width is None:
            self.width = max(min(self.width, shutil.get_terminal_size().columns - 2), _MIN_WIDTH)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write rows (name, description); takes the arguments of click's method."""
        if self.width < _NARROW:
            col_max = self.width // 4
        super().write_dl([(self._broken(name), about) for name, about in rows], col_max, col_spacing)

    def _broken(self, name: str) -> str:
        """The name, broken between words or choices if it is too long for a line."""
        indent = " " * (self.current_indent + self.indent_increment)
        lines = [" " * self.current_indent]
        for part in re.split(r"(?<=[ |/])", name):
            if lines[-1].strip() and len(lines[-1] + part) > self.width:
                lines.append(indent)
            lines[-1] += part
        return "\n".join(line.rstrip() for line in lines).lstrip()


class HelpContext(click.Context):
    """Click context that formats help with HelpFormatter."""

    formatter_class = HelpFormatter


_WRONG_PATH = (errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR)
_GROUPS = {
    "First steps": ("demo", "doctor"),
    "Photographs": ("check", "sfm"),
    "Training": ("train", "batch", "city"),
    "Looking at results": ("view", "render", "report", "info"),
    "Measuring": ("eval", "compare"),
    "Files for others": ("clean", "export", "mesh"),
}
"""Commands by the sections of the help."""
_COMMANDS = tuple(name for names in _GROUPS.values() for name in names)
_UNCUT = 1000  # characters: descriptions are wrapped, not cut off
_INTERNAL = ("cell",)
"""Hidden commands, which other commands start."""


class _LazyGroup(click.Group):
    """Imports the module of a command only when it is used or commands are listed."""

    context_class = HelpContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each group of commands, with all descriptions in one column."""
        column = max(map(len, _COMMANDS)) + 2
        for title, names in _GROUPS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            rows = [(name, command.get_short_help_str(_UNCUT)) for name, command in commands if command]
            with formatter.section(title):
                formatter.write_dl(rows, col_spacing=column - max(map(len, names)))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS + _INTERNAL:
            return None
        command: click.Command = importlib.import_module(f"splat_cli.cli.{cmd_name}").command
        command.context_class = HelpContext
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            others = f"there are {', '.join(_COMMANDS)}"
            with suppress(OSError):  # such as a name that is too long
                if Path(name).exists():
                    others = f"did you mean `splat train {quoted(name)}`?"
            advice = name_advice(name, _COMMANDS, others)
            raise click.UsageError(f"No such command '{name}': {advice}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExample:\n  splat demo\n  splat train photos/garden --eval\n  splat render runs/garden",
)
@click.version_option(__version__, prog_name="splat")
@click.option(
    "--debug",
    is_flag=True,
    help="Show the traceback of errors, and on a GPU which kernel failed (slow); also allowed after the command.",
)
@click.option("--json", is_flag=True, help="Print the result or the error as JSON; also allowed after the command.")
def splat(debug: bool, json: bool) -> None:
    """3D Gaussian Splatting: photographs in, splats out."""


def main() -> None:
    """Entry point of `splat`: run the command line and exit with its exit code."""
    try:
        code = _run_with_streams()
    except KeyboardInterrupt as signal:  # before the command begins, or while its result is printed
        code = interrupt_code(signal)
    sys.exit(code)


def _run_with_streams() -> int:
    """The exit code; everything is printed."""
    raise_on_signals()
    _open_standard_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error("splat", _encodable)
        sys.stdout.reconfigure(errors="splat")
    code = run(sys.argv[1:])
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:  # already reported, or a closed pipe; Python would report it again and exit with code 120
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    return code


def _encodable(error: UnicodeError) -> tuple[str | bytes, int]:
    """Error handler of standard output: keeps the bytes of file names that are not UTF-8, escapes other characters."""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.backslashreplace_errors(error)


def _open_standard_streams() -> None:
    """Open /dev/null for standard streams that are closed.

    Otherwise the next opened files would get their descriptors, and libraries would print into these files.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor: this one
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8")  # noqa: SIM115


def run(arguments: list[str]) -> int:
    """Run `splat`; returns the exit code: 0 success, 1 failure, 2 wrong usage or input, 128 + number of a signal."""
    flags = {"--debug", "--json"}.intersection(arguments)
    if "--debug" in flags:
        from splat_cli.device.cuda import CudaBackend

        CudaBackend.debug = True
    as_json = "--json" in flags
    try:
        given = [_hyphenated(one) for one in arguments if one not in flags]
        result = splat.main(given, prog_name="splat", standalone_mode=False)
    except Exception as error:
        if "--debug" in flags:
            traceback.print_exc()
        message, code = _explain(kernel_error_before(error) or error)
        if message:
            with suppress(OSError):  # the terminal is gone
                click.echo("\n".join(wrapped(line, sys.stderr) for line in message.splitlines()), err=True)
        if as_json:
            with suppress(OSError):  # the reader of standard output may be gone, too
                click.echo(to_json({"error": message.removeprefix("Error: "), "exit_code": code}))
        return code
    if isinstance(result, Output):
        return _shown(result, as_json)
    return result if isinstance(result, int) else 0


def _shown(result: Output, as_json: bool) -> int:
    """Print the result; returns the exit code, or 1 if printing failed. A closed pipe is not a failure."""
    try:
        result.show(as_json)
    except BrokenPipeError:
        return result.exit_code
    except OSError as error:
        with suppress(OSError):
            click.echo(f"Error: the result cannot be printed: {error.strerror or error}", err=True)
        return 1
    return result.exit_code


def _hyphenated(argument: str) -> str:
    """The argument with hyphens instead of underscores in the option's name: other trainers use underscores."""
    if not argument.startswith("--"):
        return argument
    name, *value = argument.split("=", 1)
    return "=".join([name.replace("_", "-"), *value])


def _see(ctx: click.Context) -> str:
    return f"(see '{ctx.command_path} --help')"


def _explain(error: Exception) -> tuple[str, int]:
    """(message, exit code) of an exception."""
    if isinstance(error, UsageError):
        return f"Error: {escape_unprintable(str(error))}", error.exit_code
    if isinstance(error, SplatError):
        return (str(error) if isinstance(error, Interrupted) else f"Error: {error}"), error.exit_code
    if isinstance(error, click.UsageError) and type(error).__name__ == "NoArgsIsHelpError":  # raised since click 8.2
        return error.format_message(), 2
    if isinstance(error, click.NoSuchOption) and error.possibilities and error.ctx:
        nearest = error.possibilities[0]
        return f"Error: No such option {error.option_name!r}: did you mean {nearest!r}? {_see(error.ctx)}", 2
    if isinstance(error, click.UsageError):
        hint = f" {_see(error.ctx)}" if error.ctx else ""
        return f"Error: {one_line(error.format_message()).rstrip('.')}{hint}", 2
    if isinstance(error, click.Abort):
        return "Interrupted", interrupt_code(error.__cause__)
    if isinstance(error, MemoryError):
        what = f": {one_line(error)}" if str(error) else ""
        return f"Error: out of memory{what}; use fewer splats or smaller photographs", 1
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "Error: cannot start another thread: raise the limit of memory or of processes (ulimit -v, -u)", 2
    if is_full(error):
        return f"Error: no space left on the disk for {getattr(error, 'filename', None) or 'a file'}", 1
    if isinstance(error, OSError) and error.errno in _WRONG_PATH and error.filename:
        path = escape_unprintable(os.fsdecode(error.filename))
        return f"Error: {path} cannot be used: {error.strerror}; name another path", 2
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop"):  # resolve() before Python 3.13
        return f"Error: {one_line(error)}; name another path", 2
    return f"Error: {type(error).__name__}: {one_line(error)} (--debug shows where)", 1
