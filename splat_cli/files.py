"""Files appear whole or not at all: written beside their final name, then renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from splat_cli.errors import UsageError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a path in the same folder to write to; renames it to `path` at the end, or removes it after an error.

    Missing parent folders are made. Raises UsageError where the folder cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield beside
        beside.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}; choose another place") from error
    finally:
        with suppress(OSError):
            beside.unlink()
