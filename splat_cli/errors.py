"""The exceptions a user sees: one line that says what happened, what was expected and what to do."""

import lzma
import zipfile
import zlib

ZIP_ERRORS = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
"""What Python's readers raise on a damaged archive or member; RuntimeError: encrypted, or of a newer version."""


class SplatError(Exception):
    """Something the program could not do; the command ends with `exit_code`."""

    exit_code = 1


class UsageError(SplatError):
    """Wrong input or wrong usage: a path, a file's content, an option's value."""

    exit_code = 2


class SceneError(UsageError):
    """A scene that cannot be read or holds nothing usable."""


class FormatError(UsageError):
    """A file whose content is not what its format promises."""


class DeviceError(SplatError):
    """No device, driver or compiler for what was asked."""


class ShapeError(SplatError):
    """An array whose dtype, layout or shape does not fit the kernel it was passed to."""


class DiskError(SplatError):
    """A file that could not be written: a full or failing disk. Every file that was there before is as it was."""


class UnwritableError(DiskError, UsageError):
    """A file that could not be written where it was to be: a folder without permission, a file in place of a folder."""

    exit_code = 2


class DivergedError(SplatError):
    """Training left no splat with finite parameters."""


class OutOfMemory(SplatError):
    """The device has too little memory for the smallest form of what was asked."""


def one_line(message: object) -> str:
    """Another program's message, or an exception's, without its line breaks and other control characters."""
    return escape_unprintable(" ".join(str(message).split()))


def escape_unprintable(text: str) -> str:
    """The text with escapes in place of control characters and of bytes that are not UTF-8."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def reason_of(error: BaseException) -> str:
    """Why, in a few words and one line: what the exception says, or its type where it says nothing."""
    return one_line(getattr(error, "strerror", None) or error)[:200] or type(error).__name__
