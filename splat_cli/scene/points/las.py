"""Points of LAS and LAZ files, decoded by las_worker.py in a child process."""

import importlib.util
import json
from pathlib import Path
from typing import IO

import numpy as np

from splat_cli.child_process import ending, kill, receive, start_worker
from splat_cli.errors import FormatError, UsageError, reason_of
from splat_cli.scene.dataset import Points
from splat_cli.scene.points import las_worker

LAS_SUFFIXES = (".las", ".laz")
LAS_MAGIC = b"LASF"
_PROGRAM = f"from {las_worker.__name__} import main; main()"


def read_las(path: Path) -> Points:
    """Points of a LAS or LAZ file (ASPRS), in its own coordinates.

    FormatError if the file is damaged, even if its decoder crashes; UsageError if laspy is missing.
    """
    if importlib.util.find_spec("laspy") is None:
        raise UsageError(f"{path} needs laspy: pip install 'splat-cli[las]'")
    try:
        path.open("rb").close()
    except OSError as error:
        raise FormatError(f"{path} cannot be read ({reason_of(error)})") from error
    process = start_worker(_PROGRAM, str(path))
    try:
        assert process.stdout is not None
        return _received(process.stdout)
    except (ValueError, MemoryError) as error:
        reason = str(error) or f"its decoder failed: {ending(process.wait())}"
        raise FormatError(f"{path} is not a readable LAS file ({reason}); export it again") from None
    finally:
        kill(process)


def _received(stream: IO[bytes]) -> Points:
    """The points that the worker writes. ValueError with its reason, or without one if its output ends early."""
    head = stream.readline()
    if not head:
        raise ValueError
    answer = json.loads(head)
    if "error" in answer:
        raise ValueError(answer["error"])
    positions = np.empty((answer["points"], 3), np.float64)
    colors = np.empty((answer["points"], 3), np.uint8)
    for array in (positions, colors):
        receive(stream, array.reshape(-1).view(np.uint8).data)
    return Points(positions, colors)
