"""Fingerprints of the files of a view, which show that a file was edited or replaced."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from splat_cli.io.files import regular

_NUM_BLOCKS, _BLOCK = 5, 4096
"""Number of blocks of a file that its fingerprint covers, and their size in bytes."""
_UNCOMPRESSED = (".bmp", ".tif", ".tiff", ".npy", ".exr")
"""Suffixes of files whose pixels may be stored uncompressed."""
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
            for number in range(_NUM_BLOCKS):
                file.seek(max(size - _BLOCK, 0) * number // (_NUM_BLOCKS - 1))
                digest.update(file.read(_BLOCK))
            sampled = f"{size}-{digest.hexdigest()[:16]}"
            if path.suffix.lower() not in _UNCOMPRESSED:
                return sampled
            file.seek(0)
            return f"{sampled}-{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"
    except OSError:
        return UNREADABLE
