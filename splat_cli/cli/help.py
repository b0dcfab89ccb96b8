"""Help text for terminals of any width; click's own is at least 50 columns wide."""

import re
import shutil
from collections.abc import Iterable

import click

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
        """Write rows (name, description); arguments are those of click."""
        if self.width < _NARROW:
            col_max = self.width // 4
        super().write_dl([(self._broken(name), about) for name, about in rows], col_max, col_spacing)

    def _broken(self, name: str) -> str:
        """The name with line breaks between words and choices where it is too long for a line."""
        indent = " " * (self.current_indent + self.indent_increment)
        lines = [" " * self.current_indent]
        for part in re.split(r"(?<=[ |/])", name):
            if lines[-1].strip() and len(lines[-1] + part) > self.width:
                lines.append(indent)
            lines[-1] += part
        return "\n".join(line.rstrip() for line in lines).lstrip()


class HelpContext(click.Context):
    """Click context of commands whose help HelpFormatter formats."""

    formatter_class = HelpFormatter
