"""Bounds-checked sequential reading of binary files."""

import mmap
import struct
from pathlib import Path

from splat_cli.errors import SceneError

_COUNT = struct.Struct("<Q")


class Cursor:
    """A position in a memory-mapped file; methods advance it or raise SceneError with the file's name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pos = 0
        try:
            with path.open("rb") as file:
                empty = path.stat().st_size == 0  # mmap rejects empty files
                self.data: bytes | mmap.mmap = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise SceneError(f"{path} cannot be read: {error.strerror or error}") from error

    def truncated(self, what: str) -> SceneError:
        return SceneError(
            f"{self.path} ends in the middle of {what} ({len(self.data)} bytes): it is truncated or damaged; "
            "copy or export the model again"
        )

    def take(self, layout: struct.Struct, what: str) -> tuple:
        """The next values."""
        if self.pos + layout.size > len(self.data):
            raise self.truncated(what)
        values = layout.unpack_from(self.data, self.pos)
        self.pos += layout.size
        return values

    def take_count(self, what: str, min_bytes: int) -> int:
        """The next 64-bit count of items of at least `min_bytes` each, which must fit into the rest of the file."""
        (count,) = self.take(_COUNT, f"the number of {what}")
        room = (len(self.data) - self.pos) // min_bytes
        if count > room:
            raise SceneError(
                f"{self.path} declares {count} {what} but has room for at most {room}: it is truncated or damaged; "
                "copy or export the model again"
            )
        return count

    def take_string(self, what: str) -> str:
        """The next bytes up to a zero byte, as UTF-8; invalid bytes become surrogates, as in file names."""
        end = self.data.find(b"\0", self.pos)
        if end < 0:
            raise self.truncated(what)
        raw = bytes(self.data[self.pos : end])
        self.pos = end + 1
        return raw.decode("utf-8", "surrogateescape")

    def skip(self, num_bytes: int) -> None:
        """Advance over bytes whose presence was checked."""
        self.pos += num_bytes
