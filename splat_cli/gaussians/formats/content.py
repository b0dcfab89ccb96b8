"""Reading of a file's bytes, with an error that states the reason."""

from pathlib import Path

from splat_cli.errors import FormatError


def read_bytes(path: Path) -> bytes:
    """Content of a file; FormatError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from error
