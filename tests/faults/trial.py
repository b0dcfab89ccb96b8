"""Runs of `splat train` on a disk that fails at a chosen operation, each in a fork of this process.

`python -m tests.faults.trial SCENE FOLDER SHARE JOB JOBS SEED`, faulty_disk.cpp preloaded: scripts/checks/faults.py.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from splat_cli.cli.main import run as run_splat
from splat_cli.config.presets import read_toml
from splat_cli.device.launch import ceil_div
from splat_cli.errors import FormatError
from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.checkpoints.file import read_checkpoint
from splat_cli.run.storage.find_run import is_run
from splat_cli.run.storage.run_dir import RunDir

# What a run imports, once for all forks. Imported only: threads that are started here would be missing there.
for name in ("splat_cli.cli.train", "splat_cli.cli.train_request", "splat_cli.device.cpu", "splat_cli.report",
             "splat_cli.run.resume", "splat_cli.run.train_scene", "splat_cli.viewer.live"):  # fmt: skip
    importlib.import_module(name)

KINDS = ("EIO", "ENOSPC", "EACCES", "short write", "torn write", "full disk", "SIGKILL")
STEPS, SAVE_AT = 120, 60
_OPTIONS = [
    "--device=cpu", "--deterministic", "--eval", "--test-every=3", f"--steps={STEPS}", f"--save-at={SAVE_AT}",
    "--checkpoint-every=30", "--keep=2", "--densify-start=10", "--densify-interval=20", "--densify-stop=100",
    "--noise-scale=1000", "--background=random",
]  # fmt: skip
_SECONDS = 240  # a trial takes one or two, on a busy machine ten


@dataclass
class Ended:
    """How a command ended: its exit code, negative for a signal, what it printed, and the operation that failed."""

    code: int
    text: str
    struck: str


class Trials:
    """Trains on `scene` into folders under `folder`, and compares with a run that nothing happened to."""

    def __init__(self, scene: Path, folder: Path) -> None:
        self.scene, self.folder = scene, folder
        self.disk = ctypes.CDLL(None)
        self.disk.fault_arm.argtypes = (ctypes.c_char_p, ctypes.c_long, ctypes.c_int)
        self.disk.fault_count.restype = ctypes.c_long
        self.disk.fault_struck.restype = ctypes.c_char_p
        self.whole = RunDir(folder / "whole")
        counted = self._splat(self.whole.path, 0, 0)
        assert counted.code == 0, counted.text
        self.num_operations = int(counted.struck)

    def check(self, number: int, kind: int) -> str:
        """What is wrong after fault `kind` (from 1) at operation `number`, and a resumption; empty for nothing."""
        path = self.folder / f"run-{os.getpid()}"
        ended = self._splat(path, number, kind)
        wrong = self._wrong_end(ended) or self._wrong_files(path)
        if not wrong and self._missing(path):
            if ended.code == 0 and not is_run(path):
                wrong = "exit code 0 and no run"
            second = self._splat(path, 0, 0)
            wrong = wrong or (f"resumption: {second.text}" if second.code else "")
            wrong = wrong or self._wrong_end(second) or self._wrong_files(path) or self._missing(path)
        elif not wrong and ended.code not in (0, -signal.SIGKILL):  # a kill may come when all is done
            wrong = f"exit code {ended.code}, and nothing is missing"
        shutil.rmtree(path, ignore_errors=True)
        fault = f"{KINDS[kind - 1]} at {number} ({ended.struck}), exit code {ended.code}"
        return wrong and f"{fault}: {wrong}\n{ended.text}"

    def _splat(self, path: Path, number: int, kind: int) -> Ended:
        """Trains into `path`, new or begun, in a process of its own."""
        log = self.folder / f"said-{os.getpid()}"
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, 1), os.dup2(handle, 2)
            self._child(path, number, kind, writing)
        os.close(writing)
        code = _wait(child)
        with os.fdopen(reading, "rb") as pipe:
            struck = pipe.read().decode()
        return Ended(code, log.read_text(errors="replace"), struck)

    def _child(self, path: Path, number: int, kind: int, writing: int) -> None:
        new = [str(self.scene), "-o", str(path), *_OPTIONS]
        place = ["--resume", str(path), "--device=cpu"] if is_run(path) else new
        code = 99
        try:
            faulthandler.dump_traceback_later(_SECONDS - 2)
            self.disk.fault_arm(os.fsencode(path), number, kind)
            code = run_splat(["train", *place])
            sys.stdout.flush(), sys.stderr.flush()
            os.write(writing, self.disk.fault_struck() or str(self.disk.fault_count()).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _wrong_end(self, ended: Ended) -> str:
        lines = ended.text.splitlines()
        if ended.code not in (0, 1, 2, -signal.SIGKILL):
            return "unexpected exit code"
        if "Traceback" in ended.text or "Exception" in ended.text:
            return "a traceback"
        if ended.code in (1, 2) and sum(line.startswith("Error: ") for line in lines) != 1:
            return "not one line of error"
        if ended.code in (1, 2) and not lines[-1].startswith("Error: "):
            return "the error is not the last line"
        return ""

    def _wrong_files(self, path: Path) -> str:
        """The first file under its final name that is not as it should be."""
        run = RunDir(path)
        for step in run.saved_steps():
            if run.ply_path(step).read_bytes() != self.whole.ply_path(step).read_bytes():
                return f"other splats at step {step}"
        try:
            for checkpoint in checkpoint_paths(run.checkpoints_path):
                read_checkpoint(checkpoint)
            for file in path.glob("*.json"):
                json.loads(file.read_text())
            read_toml(run.config_path) if run.config_path.exists() else None
        except (FormatError, ValueError) as error:
            return str(error)
        if run.report_path.exists() and not run.report_path.read_text().rstrip().endswith("</html>"):
            return "the report ends early"
        return ""

    def _missing(self, path: Path) -> str:
        """What a run lacks that is complete."""
        run = RunDir(path)
        if not is_run(path) or run.saved_steps() != [SAVE_AT, STEPS]:
            return f"only the splats of {run.saved_steps()}"
        scores, expected = run.metrics().get("steps", {}), self.whole.metrics()["steps"]
        if any(scores.get(step, {}).get("psnr") != of_whole["psnr"] for step, of_whole in expected.items()):
            return f"only the scores of {sorted(scores)}"
        if run.result().get("steps") != STEPS:
            return "no result"
        return "" if run.report_path.is_file() else "no report"


def _wait(child: int) -> int:
    """The exit code of a child, -SIGALRM for one that takes too long."""
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGALRM


def main(scene: Path, folder: Path, share: int, job: int, num_jobs: int, seed: int) -> int:
    """One trial of `share`, drawn at random, of those of a job; prints what went wrong. Returns the exit code."""
    trials = Trials(scene, folder)
    numbers = range(1 + job, trials.num_operations + 1, num_jobs)
    chosen = [(number, kind) for number in numbers for kind in range(1, len(KINDS) + 1)]
    chosen = random.Random(seed).sample(chosen, ceil_div(len(chosen), share))
    num_wrong = 0
    for number, kind in chosen:
        if wrong := trials.check(number, kind):
            num_wrong += 1
            print(f"WRONG {wrong}", flush=True)
    by_kind = ", ".join(f"{sum(kind == one for _, one in chosen)} {name}" for one, name in enumerate(KINDS, 1))
    print(f"{len(chosen)} trials of {trials.num_operations} operations ({by_kind}): {num_wrong} wrong", flush=True)
    return int(num_wrong > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:])))
