"""Attacks one reader with damaged inputs, one after the other, and checks the outcomes."""

import time
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from splat_cli.errors import SplatError
from tests.fuzz.mutate import mutate
from tests.fuzz.target import Target
from tests.peak_memory import PeakMemory, peak_memory

MAX_SECONDS = 5.0
BASE_BYTES, BYTES_PER_BYTE = 64 << 20, 4
_FORGED = 0.7
"""Share of inputs that are intact containers with wrong contents; the others are damaged anywhere."""


@dataclass
class Outcome:
    """Results of many inputs: how many were read or refused, and the maximum processor time and memory of one."""

    read: int = 0
    refused: int = 0
    seconds: float = 0.0
    peak_bytes: int = 0


def attack(target: Target, folder: Path, count: int, seed: int, measure_memory: bool = False) -> Outcome:
    """Damages the target's file, or forges its contents, `count` times (fewer for slow readers).

    AssertionError, with the input's seed, if a reader breaks a promise.
    """
    damaged = target.prepare(folder)
    whole = damaged.read_bytes()
    before = _listing(folder)
    outcome = Outcome()
    for number in range(round(target.share * count)):
        rng = np.random.default_rng([seed, number])
        content = target.forge(whole, rng) if target.forge and rng.random() < _FORGED else mutate(whole, rng)
        damaged.write_bytes(content)
        attack_once(target, folder, outcome, f"{target.name}: seed [{seed}, {number}]", len(content), measure_memory)
    assert _listing(folder) == before, f"{target.name}: reading changed files"
    return outcome


def attack_once(
    target: Target, folder: Path, outcome: Outcome, where: str, size: int, measure_memory: bool = False
) -> None:
    """Reads the folder, of `size` bytes. AssertionError, with `where`, if the reader breaks a promise."""
    with peak_memory() if measure_memory else nullcontext(PeakMemory()) as memory:
        start = time.process_time()
        _read_or_refuse(target, folder, outcome, where)
        seconds = time.process_time() - start
    assert seconds < MAX_SECONDS, f"{where}: took {seconds:.1f} s"
    outcome.seconds = max(outcome.seconds, seconds)
    outcome.peak_bytes = max(outcome.peak_bytes, memory.bytes)
    assert memory.bytes <= BASE_BYTES + BYTES_PER_BYTE * size, (
        f"{where}: took {memory.bytes >> 20} MiB for {size} bytes"
    )


def _read_or_refuse(target: Target, folder: Path, outcome: Outcome, where: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # splat has its own limit
            target.read(folder)
        outcome.read += 1
    except SplatError as error:
        outcome.refused += 1
        message = str(error)
        assert error.exit_code == 2, f"{where}: exit code {error.exit_code}: {message}"  # noqa: PT017
        assert message, f"{where}: an empty message"
        assert "\n" not in message, f"{where}: several lines: {message!r}"
        assert " ()" not in message, f"{where}: an empty reason: {message!r}"
    except Exception as error:
        raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error


def _listing(folder: Path) -> list[str]:
    """All files next to the folder and in it, to detect files written outside of it."""
    return sorted(str(path) for path in folder.parent.rglob("*"))
