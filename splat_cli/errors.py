"""Exceptions for users: one line says what happened, what was expected and what to do."""

import difflib
import lzma
import shlex
import zipfile
import zlib
from collections.abc import Iterable

ZIP_ERRORS = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
"""Exceptions of Python's readers for damaged archives; RuntimeError: encrypted, or of a newer version."""


class SplatError(Exception):
    """Failure of an operation; the command ends with `exit_code`."""

    exit_code = 1


class UsageError(SplatError):
    """Wrong input or usage: a path, the content of a file, the value of an option."""

    exit_code = 2


class SceneError(UsageError):
    """A scene that cannot be read or contains nothing usable."""


class FormatError(UsageError):
    """A file whose content violates its format."""


class DeviceError(SplatError):
    """Missing device, driver or compiler."""


class MemoryLimit(DeviceError, UsageError):
    """A limit of the process, such as `ulimit -v`, leaves no memory for the device itself."""

    exit_code = 2


class KernelError(DeviceError):
    """A kernel that failed on a GPU, as --debug finds it. No further work of this process can use the device."""


class ShapeError(SplatError):
    """An array whose dtype, layout or shape does not fit the kernel it was passed to."""


class DiskError(SplatError):
    """A file that could not be written: a full or failing disk. Existing files are unchanged."""


class UnwritableError(DiskError, UsageError):
    """A file that cannot be written at its path: missing permission, or a file instead of a folder."""

    exit_code = 2


class UnreadableError(DiskError, UsageError):
    """A file that cannot be read now (failing disk or share, no permission). It may be intact."""

    exit_code = 2


class DivergedError(SplatError):
    """Training left no splat with finite parameters."""


class OutOfMemory(SplatError):
    """Device memory does not suffice even for the smallest form of the operation."""


def name_advice(name: str, known: Iterable[str], otherwise: str) -> str:
    """Advice for an unknown name: the nearest known one, or `otherwise` if none is similar."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else otherwise


def kernel_error_before(error: BaseException) -> KernelError | None:
    """`error` if it is a KernelError, or the KernelError that caused it: cleaning up on a failed device fails, too."""
    found = error if isinstance(error, KernelError) else None
    return found if error.__context__ is None else kernel_error_before(error.__context__) or found


def one_line(message: object) -> str:
    """A message of another program or an exception, without line breaks and control characters."""
    return escape_unprintable(" ".join(str(message).split()))


def is_utf8(text: str) -> bool:
    """Whether the text, such as a path, is valid UTF-8; Python keeps invalid bytes as surrogates."""
    return not any("\ud800" <= c <= "\udfff" for c in text)


def quoted(path: object) -> str:
    """A path as an argument of a command that a message advises: with a space or `;`, it would be another command."""
    return shlex.quote(str(path))


def escape_unprintable(text: str) -> str:
    """The text with escapes for control characters and bytes that are not UTF-8."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def reason_of(error: BaseException) -> str:
    """Message of an exception in one line, or its type if it has none."""
    return one_line(getattr(error, "strerror", None) or error)[:200] or type(error).__name__
