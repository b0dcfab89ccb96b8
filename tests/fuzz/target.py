"""Target of an attack: a reader, an input and a way to damage it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Forge = Callable[[bytes, np.random.Generator], bytes]


@dataclass(frozen=True)
class Target:
    """A folder with an input, the file to damage in it, and a function that reads it as the program would."""

    name: str
    prepare: Callable[[Path], Path]
    """Fills a folder; returns the file to damage."""
    read: Callable[[Path], object]
    """Reads from the folder."""
    forge: Forge | None = None
    """The valid file's bytes -> an intact container with wrong contents."""
    share: float = 1.0
    """Share of the inputs, for readers that start a process per input."""
