"""Execution of colmap_worker.py as a child process, with progress from COLMAP's log lines."""

import json
import re
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from splat_cli.errors import SplatError
from splat_cli.io.files import require_space
from splat_cli.processes.child_process import ending, kill, start_worker
from splat_cli.scene.sfm import colmap_worker
from splat_cli.scene.sfm.colmap_database import MARK
from splat_cli.terminal.console import Counting

_LABELS = {
    "features": "features",
    "pairs": "pairs of photographs",
    "verified": "pairs verified",
    "placed": "photographs placed",
    "again": "photographs placed again, without pairs that may only look alike",
    "kept": "photographs that keep the first poses, as others fit no better",
}
_DEVICES = {"cpu": " on the CPU", "cuda": " on the GPU"}
_FEATURES = re.compile(r"Processed file \[")
_BLOCK = re.compile(r"(?:Processing|Matching) block \[(\d+)/(\d+), (\d+)/(\d+)\]")
_IMAGE = re.compile(r"(?:Processing|Matching) image \[(\d+)/(\d+)\]")
_LOG_HEAD = re.compile(r"^[IWEF]\d{8} .*?\] |\[\w+\.(?:cc|h):\d+\] ")
_NUM_KEPT = 20
_MIN_SPACE = 4 << 20
"""Free bytes of a disk below which a failure of COLMAP is reported as a full disk."""
_PROGRAM = f"from {colmap_worker.__name__} import main; main()"


@dataclass(frozen=True, eq=False)
class Placed:
    """Cameras and points that mapping has placed so far, of the largest model.

    w2c: world to camera, float32 [N, 3, 4]; slopes: of rays at half the width and the height, float32 [N, 2]; points:
    float32 [P, 3]; colors: uint8 [P, 3], all 0 until mapping ends.
    """

    w2c: np.ndarray
    slopes: np.ndarray
    points: np.ndarray
    colors: np.ndarray


def run_colmap(
    job: Mapping[str, Any], counting: Counting, watch: Callable[[Placed], None] | None = None
) -> dict[str, Any]:
    """Run the job (see colmap_worker.py) in a child process; returns the child's last message.

    watch: called with what is placed, at times and at the end.

    The child ends with this function, also after Ctrl-C, and with this process. SplatError if it crashes, or DiskError
    if the disk of the scene is then full.
    """
    log: deque[str] = deque(maxlen=_NUM_KEPT)
    result: dict[str, Any] = {}
    temporary: AbstractContextManager[str | None] = TemporaryDirectory() if watch else nullcontext()
    with temporary as folder, _child(_watched(job, folder)) as process, ExitStack() as shown:
        assert process.stdout is not None
        progress = _Progress(lambda label, total: shown.enter_context(counting(label, total)), shown.close)
        for line in process.stdout:
            if line.startswith(MARK):
                message = json.loads(line.removeprefix(MARK))
                result = message if "models" in message else result
                if watch and "placed" in message:
                    watch(_read_placed(message["placed"]))
                else:
                    progress.message(message)
            elif line.strip():
                progress.log(line)
                log.append(line.strip())
    if process.returncode or not result:
        require_space(Path(job["scene"]), _MIN_SPACE)  # COLMAP does not say that the disk is full
        raise SplatError(
            f"COLMAP failed ({_reason(process.returncode, log)}); run the command again to continue; if it "
            f"fails again, remove {job['scene']} and try fewer or other photographs"
        )
    return result


def _watched(job: Mapping[str, Any], folder: str | None) -> Mapping[str, Any]:
    """The job; a watched one with a file of what is placed: its lines would break those of COLMAP's threads."""
    return {**job, "placed": str(Path(folder) / "placed.npz")} if folder else job


def _read_placed(path: str) -> Placed:
    with np.load(path) as arrays:
        return Placed(**arrays)


@contextmanager
def _child(job: Mapping[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """The running child: Ctrl-C reaches only the parent, which kills it."""
    process = start_worker(_PROGRAM, stderr=subprocess.STDOUT, encoding="utf-8")
    try:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # the child has ended: its last line states the reason
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
        yield process
        process.wait()
    finally:
        kill(process)


class _Progress:
    """Progress bars from the child's output. start, stop: open and close a bar."""

    def __init__(self, start: Callable[[str, int], Callable[[int], object]], stop: Callable[[], None]) -> None:
        self._start, self._stop = start, stop
        self._phase, self._total, self._done = "", 0, 0
        self._advance: Callable[[int], object] = lambda num: None

    def message(self, message: Mapping[str, Any]) -> None:
        """A message of the worker."""
        if "phase" in message:
            self._finish()
            self._phase, self._total, self._done = message["phase"], message["total"], 0
            self._advance = self._start(_LABELS[self._phase] + _DEVICES.get(message.get("device", ""), ""), self._total)
        elif "done" in message:
            self._set_done(message["done"])
        else:
            self._stop()

    def log(self, line: str) -> None:
        """A line of COLMAP's log."""
        if self._phase == "features" and _FEATURES.search(line):
            self._set_done(self._done + 1)
        elif self._phase == "pairs" and (found := _BLOCK.search(line)):
            row, rows, column, columns = map(int, found.groups())
            self._set_done(self._total * ((row - 1) * columns + column - 1) // (rows * columns))
        elif self._phase == "pairs" and (found := _IMAGE.search(line)):
            self._set_done(self._total * (int(found[1]) - 1) // int(found[2]))

    def _finish(self) -> None:
        if self._phase in ("features", "pairs"):
            self._set_done(self._total)
        self._stop()

    def _set_done(self, done: int) -> None:
        done = min(done, self._total)
        if done > self._done:
            self._advance(done - self._done)
            self._done = done


def _reason(code: int, log: deque[str]) -> str:
    """Signal or exit code, and the last error that COLMAP logged."""
    ended = ending(code)
    if code == -signal.SIGKILL:  # by the user, or by the system when memory runs out: what COLMAP logged is no cause
        return ended
    last = next((line for line in reversed(log) if line[0] in "EFW" or "Error" in line), "")
    return f"{ended}: {_LOG_HEAD.sub('', last)}" if last else ended
