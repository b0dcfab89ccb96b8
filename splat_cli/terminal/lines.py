"""Lines of text on terminals of any width."""

import os
import re
import textwrap
from typing import TextIO

_MAX_LABEL = 0.6
"""Maximum width of a row's label, relative to the terminal, for which the text is indented."""


def wrapped(line: str, stream: TextIO) -> str:
    """The line, broken between words if `stream` is a narrower terminal.

    If the line is a label, spaces and a text, broken lines of the text are indented by the width of the label.
    """
    try:
        columns = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):  # a terminal of unknown size, or not a system stream
        columns = 0
    if not 0 < columns <= len(line):
        return line
    label = re.match(r"\S.*\s{2,}(?=\S)", line)
    indent = label.end() if label and label.end() < _MAX_LABEL * columns else 0
    lines = textwrap.wrap(
        line, max(columns - 1, 1), break_long_words=False, break_on_hyphens=False, subsequent_indent=" " * indent
    )
    return "\n".join(lines)


def can_overwrite(stream: TextIO) -> bool:
    """Whether the stream is a terminal that can move the cursor back."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"
