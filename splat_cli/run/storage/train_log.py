"""train.jsonl of a run: one JSON entry per line, appended during training."""

import itertools
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splat_cli.io.files import read_error, regular, replacing
from splat_cli.io.folder_lock import require_held
from splat_cli.run.storage.records import log_entry

_MAX_LINES, _MAX_LINE = 300_000, 1 << 16
"""Maximum number of lines (training writes one per second), and of characters in a line."""


@dataclass(frozen=True)
class TrainLog:
    """Progress, warnings and times of phases, with the step of each."""

    path: Path

    def append(self, entry: Mapping[str, Any]) -> None:
        """Append a line. After an OSError, the file is unchanged if the disk allows it. FolderLost as `replacing`."""
        require_held(self.path)
        with regular(self.path).open("ab", buffering=0) as file:
            end, left = file.seek(0, os.SEEK_END), (json.dumps(entry) + "\n").encode()
            try:
                while left:
                    left = left[file.write(left) :]
            except OSError:
                file.truncate(end)
                raise

    def entries(self) -> list[dict[str, Any]]:
        """All entries, except lines that are incomplete or invalid. UnreadableError if they cannot be read now."""
        try:
            with regular(self.path).open(encoding="utf-8", errors="replace") as file:
                lines = itertools.islice(iter(lambda: file.readline(_MAX_LINE), ""), _MAX_LINES)
                return [entry for entry in map(log_entry, lines) if entry is not None]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise read_error(self.path, error) from error

    def cut(self, step: int) -> None:
        """Remove entries after `step`, and invalid lines."""
        kept = [json.dumps(line) + "\n" for line in self.entries() if line["step"] <= step]
        with replacing(self.path) as temporary:
            temporary.write_text("".join(kept), encoding="utf-8")


def sum_phases(entries: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds by phase in entries of a log, summed over all sessions that ended normally."""
    sums: dict[str, float] = {}
    for entry in entries:
        for phase, seconds in entry.get("phases", {}).items():
            sums[phase] = sums.get(phase, 0.0) + seconds
    return sums
