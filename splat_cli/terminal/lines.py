"""Lines of text and a progress bar for terminals of any width."""

import os
import re
import textwrap
from typing import Any, TextIO

from tqdm import tqdm

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


_MIN_BAR = 6  # columns
_USUAL_COLUMNS = 80  # if the terminal does not report its width


class ProgressBar(tqdm):  # type: ignore[misc]
    """tqdm with label, percentage, bar, count, time left and `fields`, the most important first."""

    fields: tuple[str, ...] = ()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"dynamic_ncols": True, "smoothing": 0.1, **options})

    def __str__(self) -> str:
        """The line. One column stays free, because terminals break full lines."""
        state = self.format_dict
        columns = (state["ncols"] or _USUAL_COLUMNS) - 1
        layout = bar_layout(columns, state["prefix"], state["n"], state["total"], (_time(state), *self.fields))
        return str(self.format_meter(**{**state, "prefix": "", "ncols": columns, "bar_format": layout}))


def bar_layout(columns: int, label: str, done: int, total: int, fields: tuple[str, ...]) -> str:
    """tqdm's bar_format for a line of at most `columns`: label and count always, then the fields that fit."""
    head = f"{label} " if label else ""
    tail = f" {done}/{total}"
    bar = "{percentage:3.0f}%|{bar}|"
    room = columns - len(head) - len(tail) - len("100%||") - _MIN_BAR
    if room < 0:
        bar, room = "{percentage:3.0f}%", columns - len(head) - len(tail) - len("100%")
    for field in fields:
        room -= len(field) + 2
        if room < 0:
            break
        tail += f", {field}"
    return head.replace("{", "{{").replace("}", "}}") + bar + tail


def _time(state: dict[str, Any]) -> str:
    """The time left; at the end, the time taken."""
    done, total, rate = state["n"], state["total"], state["rate"]
    if done >= total:
        return f"took {tqdm.format_interval(state['elapsed'])}"
    rate = rate or (done - state["initial"]) / max(state["elapsed"], 1e-9)
    return f"{tqdm.format_interval((total - done) / rate)} left" if rate else "?"
