"""Container of a checkpoint: a .npz without pickles, and a checksum of the whole file (docs/checkpoints.md)."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from splat_cli import __version__
from splat_cli.errors import ZIP_ERRORS, FormatError, UsageError, reason_of
from splat_cli.io.archives import read_npz
from splat_cli.io.files import read_error, replacing
from splat_cli.io.json_input import parse_json
from splat_cli.run.checkpoints.validate import check_contents

FORMAT = 1
_DIGEST = 64  # bytes: SHA-256 in hexadecimal
_CHUNK = 1 << 22


@dataclass
class Checkpoint:
    """State of a run after a step.

    arrays: float32 `params`, `moments1`, `moments2` (or `moments`) [rows, num], `stats` [2, num], and arrays of
    joint models (train.joint_models); on the device until written. metadata: all other values, as JSON (keys:
    docs/checkpoints.md).
    """

    step: int
    arrays: dict[str, Any]
    metadata: dict[str, Any]

    @property
    def num_splats(self) -> int:
        """Number of splats, frozen ones included."""
        return int(self.arrays["params"].shape[1])

    @property
    def num_frozen(self) -> int:
        """Number of frozen splats among them; older checkpoints have none."""
        return int(self.metadata["state"].get("num_frozen", 0))


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write and flush the file atomically. Raises DiskError."""
    header = {"format": FORMAT, "program": __version__, "step": checkpoint.step, **checkpoint.metadata}
    header_bytes = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with replacing(path, durable=True) as temporary, temporary.open("wb+") as file:
        np.savez(file, header=header_bytes, **checkpoint.arrays)
        length = file.tell()
        file.write(_digest(file, length))


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint. FormatError if it is damaged.

    UsageError if another version wrote it, UnreadableError if it cannot be read now: such a file may be intact.
    """
    try:
        with path.open("rb") as file:
            _check_digest(path, file)
        arrays = read_npz(path)
        metadata = parse_json(arrays.pop("header").tobytes())
        _check_version(path, metadata)
        check_contents(arrays, metadata)
    except IsADirectoryError as error:
        raise FormatError(f"{path} cannot be read: {reason_of(error)}") from error
    except OSError as error:
        raise read_error(path, error) from error
    except (*ZIP_ERRORS, KeyError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else reason_of(error)
        raise FormatError(f"{path} is not a checkpoint of this program ({reason}); name another file") from error
    return Checkpoint(metadata.pop("step"), arrays, metadata)


def _check_version(path: Path, metadata: Any) -> None:
    if not isinstance(metadata, dict):
        raise ValueError("its header is not a JSON object")
    if metadata.pop("format", None) != FORMAT:
        version = str(metadata.get("program"))[:40]
        raise UsageError(
            f"{path} was written by version {version!a} in a format that {__version__} cannot read; resume with that "
            "version"
        )


def _check_digest(path: Path, file: IO[bytes]) -> None:
    length = path.stat().st_size - _DIGEST
    if length > 0:
        digest = _digest(file, length)
        if file.read(_DIGEST) == digest:
            return
    raise FormatError(f"{path} is damaged: its checksum does not fit its content")


def _digest(file: IO[bytes], length: int) -> bytes:
    """SHA-256 of the next `length` bytes of the file, in hexadecimal."""
    digest = hashlib.sha256()
    file.seek(0)
    while length > 0:
        chunk = file.read(min(_CHUNK, length))
        if not chunk:
            break
        digest.update(chunk)
        length -= len(chunk)
    return digest.hexdigest().encode()
