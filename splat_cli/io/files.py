"""Atomic writing of files: written under a temporary name, then renamed. Fingerprints; folders of this program."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from splat_cli.errors import DiskError, UnreadableError, UnwritableError, reason_of
from splat_cli.io.folder_lock import require_held

_WRONG_PLACE = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.ENAMETOOLONG,
    errno.ELOOP,
)

_MAX_NAME = 200
"""Maximum bytes of a name inside a temporary name; systems allow 255."""


@contextmanager
def replacing(path: Path, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path in the same folder, which replaces `path` at the end, or is removed after an error.

    Creates missing parent folders. If `path` is a symbolic link, replaces the file that it points to. durable:
    flushed to disk. DiskError if the disk is full or fails, UnwritableError if the folder cannot be written or `path`
    is a pipe, a socket or a device, FolderLost if it belongs to a locked folder that was moved or removed.
    """
    named, path = path, path.resolve() if path.is_symlink() else path
    temporary = _temporary(path)
    try:
        require_held(named)
        regular(path).parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        if durable:
            flush(temporary)
        require_held(named)
        temporary.replace(path)
        if temporary.exists():  # some network disks report success without renaming
            raise OSError(errno.EIO, "renaming had no effect")
        if durable and os.name != "nt":  # Windows opens no folders
            flush(path.parent)
    except OSError as error:
        with suppress(OSError):
            require_held(named)  # says more than "file not found"
        raise write_error(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def require_writable(path: Path) -> None:
    """UnwritableError or DiskError if `replacing` could not write `path`. Call it before long work."""
    path = path.resolve() if path.is_symlink() else path
    temporary = _temporary(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        regular(path).parent.mkdir(parents=True, exist_ok=True)
        temporary.touch()
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def make_folder(path: Path) -> None:
    """Make a folder if it is missing. Raises UnwritableError or DiskError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        parts = (path, *path.parents)
        file = next((part for part in parts if part.exists() and not part.is_dir()), path)
        raise UnwritableError(f"{path} cannot be made: {file} is a file; name another folder") from None
    except OSError as error:
        raise write_error(path, error) from error


def _temporary(path: Path) -> Path:
    """A path in the same folder that no other process, thread or file uses."""
    encoded = os.fsencode(path.name)
    name = path.name if len(encoded) <= _MAX_NAME else hashlib.sha256(encoded).hexdigest()
    return path.with_name(f".{name}.{os.getpid()}-{threading.get_ident()}.part")


@contextmanager
def replacing_together(last: Path) -> Iterator[Path]:
    """Yield a temporary folder next to `last`; at the end its files are moved next to `last` and replace others.

    An error before that changes nothing. `last` is removed before files are moved, and is moved last, so that an index
    is never next to files of another write. Creates missing folders; DiskError and UnwritableError as `replacing`.
    """
    temporary = _temporary(last)
    try:
        require_held(last)
        temporary.mkdir(parents=True)
        yield temporary
        require_held(last)
        last.unlink(missing_ok=True)
        files = files_below(temporary, _raise)  # or an error: an index must not name missing files
        files.remove(temporary / last.name)
        for path in (*files, temporary / last.name):
            target = last.parent / path.relative_to(temporary)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
    except OSError as error:
        raise write_error(last, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def is_full(error: Exception) -> bool:
    """Whether an operation failed because the disk is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def write_error(path: Path, error: OSError) -> DiskError:
    """The exception for a failed write to `path`."""
    if is_full(error) or error.errno is None:  # NumPy's own "not enough free space"
        return DiskError(f"{path} was not written: no space left on the disk; free some there")
    if error.errno == errno.EFBIG:
        return DiskError(
            f"{path} was not written: larger than a limit (ulimit -f) or its file system allows (FAT32: 4 GiB); raise "
            "the limit, or choose another place"
        )
    reason = f"{path} cannot be written: {error.strerror or error}"
    if error.errno in _WRONG_PLACE:
        return UnwritableError(f"{reason}; make it writable, or choose another place")
    return DiskError(f"{reason}; check the disk")


def files_below(folder: Path, on_error: Callable[[OSError], object] | None = None) -> list[Path]:
    """All files in a folder and its subfolders. on_error: called for folders that cannot be listed."""
    return [Path(parent, name) for parent, _, names in os.walk(folder, onerror=on_error) for name in names]


def _raise(error: OSError) -> None:
    raise error


def entries(folder: Path) -> list[Path]:
    """The entries of a folder; empty if it is missing or a file. UnreadableError if it cannot be read.

    `Path.glob` finds nothing in a folder without permission.
    """
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise read_error(folder, error) from error


def regular(path: Path) -> Path:
    """The path. OSError for a pipe, a socket or a device: reading may hang, and a file must not replace it."""
    _refuse_device(path)
    if (named := _READ.get()) is not None:
        named.add(path)
    return path


def first_bytes(path: Path, num: int) -> bytes:
    """The first bytes of a file, to find out what it is: not for `files_read`. OSError as `regular`."""
    _refuse_device(path)
    with path.open("rb") as file:
        return file.read(num)


def _refuse_device(path: Path) -> None:
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EPERM, "a pipe, a socket or a device", str(path))


_READ: ContextVar[set[Path] | None] = ContextVar("files_read", default=None)


@contextmanager
def files_read() -> Iterator[set[Path]]:
    """Yield a set, to which this thread adds the files that it opens with `regular` meanwhile."""
    found: set[Path] = set()
    token = _READ.set(found)
    try:
        yield found
    finally:
        _READ.reset(token)


Stamps = dict[Path, tuple[int, int] | None]


def stamps_of(paths: Iterable[Path]) -> Stamps:
    """Size and time of the last change of each file, None for missing ones, for `changed_since`."""
    stamps: Stamps = {}
    for path in paths:
        stamps[path] = None
        with suppress(OSError):
            status = path.stat()
            stamps[path] = status.st_size, status.st_mtime_ns
    return stamps


def changed_since(before: Stamps, now: Stamps | None = None) -> str:
    """Text that names a file that has changed since `stamps_of`; empty if none has. now: with further files."""
    now = stamps_of(before) if now is None else now
    path = next((path for path in {**before, **now} if before.get(path) != now.get(path)), None)
    return "" if path is None else f"{path} changed while it was read: wait until it is complete, then try again"


def read_error(path: Path, error: OSError) -> UnreadableError:
    """The exception for a file that cannot be read now but may be intact."""
    return UnreadableError(f"{path} cannot be read: {reason_of(error)}; make it readable, then try again")


def flush(path: Path) -> None:
    """Wait until the file, or the entries of the folder, are on disk. OSError.

    Some disks (FUSE, SMB) flush files but no folders.
    """
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)  # Windows flushes only files open for writing
    try:
        os.fsync(handle)
    except OSError as error:
        if not (path.is_dir() and error.errno in (errno.EINVAL, errno.ENOTSUP)):
            raise
    finally:
        os.close(handle)


def require_space(path: Path, needed: int) -> None:
    """DiskError if the disk of `path`, which need not exist, has fewer than `needed` bytes free."""
    try:
        existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
        free = shutil.disk_usage(existing).free
    except OSError as error:
        raise write_error(path, error) from error
    if free < needed:
        size, room = f"{needed / 2**20:,.1f} MiB", f"{free / 2**20:,.1f} MiB"
        raise DiskError(f"{path} was not written: it needs {size} and the disk has {room}; free some there")


def remove_leftovers(folder: Path, except_below: Sequence[Path] = ()) -> None:
    """Remove temporary files and folders of killed processes in `folder`; no process may be writing there.

    except_below: subfolders into which other processes may be writing.
    """
    for parent, folders, names in os.walk(folder):
        for name in names:
            if is_leftover(path := Path(parent, name)):
                with suppress(OSError):
                    path.unlink()
        for name in folders:
            if is_leftover(path := Path(parent, name)):
                shutil.rmtree(path, ignore_errors=True)
        folders[:] = [name for name in folders if Path(parent, name) not in except_below]


def is_leftover(path: Path) -> bool:
    """Whether the name belongs to a temporary file."""
    return path.name.startswith(".") and path.name.endswith(".part")


_PACKAGE = Path(__file__).resolve().parents[1]


def resource_dir(name: str) -> Path:
    """Folder `name` ("cuda_src" or "configs"): the wheel's copy if there is one, otherwise the checkout's."""
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


_NUM_BLOCKS, _BLOCK = 5, 4096
"""Number of blocks of a file that its fingerprint covers, and their size in bytes."""
_UNCOMPRESSED = (".bmp", ".tif", ".tiff", ".npy", ".exr")
"""Suffixes of files whose pixels may be stored uncompressed."""
_UNCOMPRESSED_STARTS = (b"BM", b"II*\0", b"MM\0*", *(b"P%d" % kind for kind in range(1, 8)))
"""First bytes of such files under any name: BMP, TIFF, PPM and its kin."""
UNREADABLE = "unreadable"


def fingerprint(path: Path) -> str:
    """Size and hash of a few blocks of a file, or UNREADABLE: edits of a compressed file change most of its bytes.

    Files that may be uncompressed add the hash of the whole file: a local edit can keep the blocks and the size.
    Modification times do not count: a copy of a scene has other times.
    """
    digest = hashlib.sha256()
    try:
        with regular(path).open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            is_sampled = not file.read(4).startswith(_UNCOMPRESSED_STARTS) and path.suffix.lower() not in _UNCOMPRESSED
            for number in range(_NUM_BLOCKS):
                file.seek(max(size - _BLOCK, 0) * number // (_NUM_BLOCKS - 1))
                digest.update(file.read(_BLOCK))
            sampled = f"{size}-{digest.hexdigest()[:16]}"
            if is_sampled:
                return sampled
            file.seek(0)
            return f"{sampled}-{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"
    except OSError:
        return UNREADABLE
