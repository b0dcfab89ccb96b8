"""Commands on a disk that fails at a chosen operation, each in a fork of this process.

`python -m tests.faults.trial SCENE FOLDER TRIALS JOB JOBS SEED`, faulty_disk.cpp preloaded: scripts/checks/faults.py.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import json
import os
import random
import re
import shutil
import signal
import sys
import time
import traceback
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from splat_cli.cli.main import run as run_splat
from splat_cli.config.presets import read_toml
from splat_cli.errors import FormatError
from splat_cli.io.files import is_leftover
from splat_cli.run.checkpoints.checkpointer import checkpoint_path, checkpoint_paths
from splat_cli.run.checkpoints.file import read_checkpoint
from splat_cli.run.storage.find_run import is_run
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.sample import make_sample_city

# Modules of the commands, imported once for all forks. Imports start no threads, because forks would not have them.
for name in (
    "splat_cli.cli.train",
    "splat_cli.cli.train",
    "splat_cli.cli.export",
    "splat_cli.cli.batch",
    "splat_cli.cli.city",
    "splat_cli.commands.city.stages",
    "splat_cli.device.cpu",
    "splat_cli.report",
    "splat_cli.run.resume",
    "splat_cli.run.train_scene",
    "splat_cli.viewer.live",
):
    importlib.import_module(name)

OPERATIONS = {
    "EIO": "ocrwfnumtl",
    "ENOSPC": "cwfnm",
    "EACCES": "ocnuml",
    "short write": "w",
    "torn write": "w",
    "full disk": "cwm",
    "SIGKILL": "ocrwfnumtl",
}
"""Kind of fault -> operations at which it is tried, by their letters in faulty_disk.cpp."""
KINDS = tuple(OPERATIONS)
STEPS, SAVE_AT = 120, 60
_OPTIONS = [
    "--device=cpu",
    "--deterministic",
    "--eval",
    "--test-every=3",
    f"--steps={STEPS}",
    f"--save-at={SAVE_AT}",
    "--checkpoint-every=30",
    "--keep=2",
    "--densify-start=10",
    "--densify-interval=20",
    "--densify-stop=100",
    "--noise-scale=1000",
    "--background=random",
]
_BATCH_OPTIONS = ["--device=cpu", "--deterministic", "--steps=3", "--save-at=", "--no-report"]
_CITY_OPTIONS = ["--device=cpu", "--deterministic", "--eval", "--test-every=3", "--init=points", "--lod=2"]
_CITY_OPTIONS += ["--steps=2", "--cell-steps=2", "--max-splats=300", "--splat-budget=0", "--cell-splats=300"]
_INPUTS = ("config.toml", "cameras.json", "inputs.json")
"""Files of a run that are the same from its beginning to its end."""
_SECONDS = 240  # a trial takes one or two, on a busy machine ten


@dataclass
class Ended:
    """End of a command: its exit code (negative for a signal), its output, and the operation that failed."""

    code: int
    text: str
    struck: str


class Scenario(ABC):
    """A command that works in a folder, on files from `prepare`."""

    name: str

    def __init__(self, scene: Path, whole: RunDir) -> None:
        """whole: a finished run without a fault."""
        self.scene, self.whole = scene, whole

    def prepare(self, path: Path) -> None:
        """Create the folder `path` with the files that the command needs; here: none."""
        return

    @abstractmethod
    def command(self, path: Path) -> list[str]:
        """Arguments of `splat`, also to repeat the command after a fault."""

    @abstractmethod
    def wrong(self, path: Path) -> str:
        """The first file under its final name with wrong contents; empty if all are right."""

    @abstractmethod
    def missing(self, path: Path) -> str:
        """Names of files that the command has not written yet; empty if all exist."""


class Training(Scenario):
    """A new run."""

    name = "train"

    def command(self, path: Path) -> list[str]:
        new = [str(self.scene), "-o", str(path), *_OPTIONS]
        return ["train", *(["--resume", str(path), "--device=cpu"] if is_run(path) else new)]

    def wrong(self, path: Path) -> str:
        run = RunDir(path)
        for step in run.saved_steps():
            if run.ply_path(step).read_bytes() != self.whole.ply_path(step).read_bytes():
                return f"other splats at step {step}"
        for name in _INPUTS:
            if (path / name).exists() and (path / name).read_bytes() != (self.whole.path / name).read_bytes():
                return f"another {name}"
        try:
            for checkpoint in checkpoint_paths(run.checkpoints_path):
                read_checkpoint(checkpoint)
            for file in path.glob("*.json"):
                json.loads(file.read_text())
            read_toml(run.config_path) if run.config_path.exists() else None
        except (FormatError, ValueError) as error:
            return str(error)
        if list(path.rglob("*.unreadable")):
            return "a good checkpoint was set aside"
        if run.report_path.exists() and not run.report_path.read_text().rstrip().endswith("</html>"):
            return "the report ends early"
        return ""

    def missing(self, path: Path) -> str:
        run = RunDir(path)
        if not is_run(path) or run.saved_steps() != [SAVE_AT, STEPS]:
            return f"only the splats of {run.saved_steps()}"
        scores, expected = run.metrics().get("steps", {}), self.whole.metrics()["steps"]
        for step in map(str, (SAVE_AT, STEPS)):
            if scores.get(step, {}).get("per_image") != expected[step]["per_image"]:
                return f"no such scores at step {step}"
        if run.result().get("steps") != STEPS:
            return "no result"
        return "" if run.report_path.is_file() else "no report"


class Resume(Training):
    """A run that was killed after three quarters of its steps."""

    name = "resume"

    def prepare(self, path: Path) -> None:
        run = RunDir(shutil.copytree(self.whole.path, path))
        for file in (run.result_path, run.report_path, checkpoint_path(run.checkpoints_path, STEPS)):
            file.unlink()
        shutil.rmtree(run.ply_path(STEPS).parent)
        metrics = run.metrics()
        del metrics["steps"][str(STEPS)]
        run.save_metrics(metrics)

    def wrong(self, path: Path) -> str:
        lost = [name for name in _INPUTS if not (path / name).exists()]
        return super().wrong(path) or (f"{lost[0]} is gone" if lost else "")


class Export(Scenario):
    """Export of a run to a file that exists."""

    name, out = "export", "splats.spz"
    old: bytes | None = b"before"

    def prepare(self, path: Path) -> None:
        shutil.copytree(self.whole.path, path / "run")
        if self.old is not None:
            (path / self.out).write_bytes(self.old)

    def command(self, path: Path) -> list[str]:
        return ["export", str(path / "run"), str(path / self.out), "--no-bake"]

    def expected(self) -> dict[str, bytes]:
        """The files of an export without a fault, which is made once."""
        folder = self.whole.path.parent / f"{self.name}-whole"
        return _files(folder)

    def wrong(self, path: Path) -> str:
        if _files(path / "run") != _files(self.whole.path):
            return "the run has changed"
        target = path / self.out
        found = target.read_bytes() if target.exists() else None
        return "" if found in (self.old, self.expected()[target.name]) else f"a damaged {self.out}"

    def missing(self, path: Path) -> str:
        return "" if _files((path / self.out).parent).items() >= self.expected().items() else "no complete export"


class ChunkExport(Export):
    """Export to chunks with an index, which may exist only after all chunks."""

    name, out, old = "chunks", "lod/lod-meta.json", None

    def wrong(self, path: Path) -> str:
        is_whole = not (path / self.out).exists() or not self.missing(path)
        return super().wrong(path) or ("" if is_whole else "an index without its chunks")


class Batch(Scenario):
    """A batch of one scene. Training is another process, whose disk works."""

    name = "batch"

    def command(self, path: Path) -> list[str]:
        return ["batch", str(self.scene), "-o", str(path), *_BATCH_OPTIONS]

    def wrong(self, path: Path) -> str:
        try:
            for file in path.glob("*.json"):
                json.loads(file.read_text())
        except ValueError as error:
            return f"summary: {error}"
        run = RunDir(path / self.scene.name)
        return "" if run.saved_steps() in ([], [3]) else "other splats"

    def missing(self, path: Path) -> str:
        summary = path / "summary.json"
        states = [scene["status"] for scene in json.loads(summary.read_text())] if summary.exists() else []
        return "" if states in (["done"], ["skipped"]) else f"the summary says {states}"


class Merge(Scenario):
    """A city whose stages are trained: the command merges its one cell, evaluates it and writes levels of detail."""

    name = "merge"

    @property
    def city(self) -> Path:
        """A city that is trained once."""
        return self.whole.path.parent / "city-whole"

    def prepare(self, path: Path) -> None:
        if not self.city.exists():
            make_sample_city(self.city.with_name("town"), blocks=(1, 1), num_views=6, width=24, height=18)
            assert run_splat(self.command(self.city)) == 0
        shutil.copytree(self.city, path)
        run = RunDir(path)
        for file in (*path.glob("*.json"), run.config_path):
            if file.name != "city.json":
                file.unlink()
        for folder in ("point_cloud", "lod"):
            shutil.rmtree(path / folder)

    def command(self, path: Path) -> list[str]:
        return ["city", str(self.city.with_name("town")), "-o", str(path), *_CITY_OPTIONS]

    def wrong(self, path: Path) -> str:
        found, expected = _files(path), _files(self.city)
        for name in expected.keys() - found.keys():
            if name.startswith(("coarse/", "cells/", "city.json")):
                return f"{name} is gone"
        for name in expected.keys() & found.keys() - {"seconds.json", "result.json"}:
            if found[name] != expected[name]:
                return f"another {name}"
        is_whole = "lod/lod-meta.json" not in found or found.keys() >= {name for name in expected if "lod/" in name}
        return "" if is_whole else "an index without its chunks"

    def missing(self, path: Path) -> str:
        found = _files(path).keys()
        lost = [name for name in _files(self.city) if name not in {"seconds.json", *found}]
        surplus = [name for name in found if any(is_leftover(Path(part)) for part in Path(name).parts)]
        return f"{lost[0]} is missing" if lost else f"{surplus[0]} is left over" if surplus else ""


SCENARIOS = (Training, Resume, Export, ChunkExport, Batch, Merge)


class Trials:
    """Runs commands on folders under `folder` with a fault in each, then repeats them without faults."""

    def __init__(self, scene: Path, folder: Path) -> None:
        self.folder = folder
        self.disk = ctypes.CDLL(None)
        self.disk.fault_arm.argtypes = (ctypes.c_char_p, ctypes.c_long, ctypes.c_int)
        self.disk.fault_record.restype = self.disk.fault_struck.restype = ctypes.c_char_p
        whole = RunDir(folder / "whole")
        self.scenarios = {made.name: made for made in (kind(scene, whole) for kind in SCENARIOS)}
        self.operations = {name: self._record(scenario) for name, scenario in self.scenarios.items()}

    def _record(self, scenario: Scenario) -> str:
        """The operations of a scenario without a fault, one letter each; keeps results to compare with."""
        path = scenario.whole.path if scenario.name == "train" else self.folder / f"{scenario.name}-record"
        scenario.prepare(path)
        ended = self._splat(scenario, path, 0, 0)
        assert ended.code == 0, ended.text
        if isinstance(scenario, Export):
            shutil.copytree(
                (path / scenario.out).parent,
                self.folder / f"{scenario.name}-whole",
                ignore=shutil.ignore_patterns("run"),
            )
        assert not scenario.wrong(path)
        assert not scenario.missing(path)
        return ended.struck

    def check(self, name: str, number: int, kind: str) -> str:
        """Run with a fault at operation `number`, then repeat; returns the defect found, or an empty text."""
        scenario, path = self.scenarios[name], self.folder / f"trial-{os.getpid()}"
        scenario.prepare(path)
        ended = self._splat(scenario, path, number, KINDS.index(kind) + 1)
        wrong = _wrong_end(ended) or scenario.wrong(path)
        if not wrong and (missing := scenario.missing(path)):
            if ended.code == 0 and name not in ("train", "resume"):  # commands warn about these and continue
                wrong = f"exit code 0, and {missing}"
            second = self._splat(scenario, path, 0, 0)
            wrong = wrong or (f"repetition: {second.text}" if second.code else "")
            wrong = wrong or _wrong_end(second) or scenario.wrong(path) or scenario.missing(path)
        elif not wrong and ended.code not in (0, -signal.SIGKILL):  # a kill may come after all work is done
            wrong = f"exit code {ended.code}, and nothing is missing"
        shutil.rmtree(path, ignore_errors=True)
        fault = f"{name}: {kind} at {number} ({ended.struck}), exit code {ended.code}"
        return wrong and f"{fault}: {wrong}\n{ended.text}"

    def _splat(self, scenario: Scenario, path: Path, number: int, kind: int) -> Ended:
        """The scenario's command in its own process."""
        log = self.folder / f"said-{os.getpid()}"
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, 1), os.dup2(handle, 2)
            self._child(scenario.command(path), path, number, kind, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            code = _wait(child)
            struck = pipe.read().decode()
        return Ended(code, log.read_text(errors="replace"), struck)

    def _child(self, command: list[str], path: Path, number: int, kind: int, writing: int) -> None:
        code = 99
        try:
            faulthandler.dump_traceback_later(_SECONDS - 2)
            self.disk.fault_arm(os.fsencode(path), number, kind)
            code = run_splat(command)
            sys.stdout.flush(), sys.stderr.flush()
            os.write(writing, self.disk.fault_struck() if number else self.disk.fault_record())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)


def _files(folder: Path) -> dict[str, bytes]:
    """Names and contents of the files in a folder, except locks."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def _wrong_end(ended: Ended) -> str:
    lines = ended.text.splitlines()
    if ended.code not in (0, 1, 2, -signal.SIGKILL):
        return "unexpected exit code"
    if "Traceback" in ended.text or "Exception" in ended.text:
        return "a traceback"
    is_error = [bool(re.match(r"Error: |\d+ of \d+ scenes failed: ", line)) for line in lines]
    if ended.code in (1, 2) and sum(is_error) != 1:
        return "not one line of error"
    if ended.code in (1, 2) and not is_error[-1]:
        return "the error is not the last line"
    return ""


def _wait(child: int) -> int:
    """The exit code of a child; -SIGALRM if it takes too long."""
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGALRM


def chosen_trials(operations: dict[str, str], num_trials: int, seed: int) -> list[tuple[str, int, str]]:
    """(scenario, number of the operation, kind): all trials, or `num_trials` of them, drawn at random.

    The same number from each scenario; 0: all.
    """
    trials = []
    for index, (name, letters) in enumerate(operations.items()):
        found = [
            (name, number, kind)
            for number, letter in enumerate(letters, 1)
            for kind, where in OPERATIONS.items()
            if letter in where
        ]
        share = (num_trials + index) // len(operations) if num_trials else len(found)
        trials += random.Random(seed).sample(found, min(share, len(found)))
    return trials


def main(scene: Path, folder: Path, num_trials: int, job: int, num_jobs: int, seed: int) -> int:
    """One of `num_jobs` parts of the trials; prints what went wrong. Returns the exit code."""
    trials = Trials(scene, folder)
    chosen = chosen_trials(trials.operations, num_trials, seed)[job::num_jobs]
    passed = dict.fromkeys(trials.operations, 0)
    for done, (name, number, kind) in enumerate(chosen):
        if done and not done % 100:
            print(f"{sum(passed.values())} of {done} trials passed so far", flush=True)
        if wrong := trials.check(name, number, kind):
            print(f"WRONG {wrong}", flush=True)
        else:
            passed[name] += 1
    by_name = ", ".join(f"{passed[name]} {name} ({len(trials.operations[name])} operations)" for name in passed)
    print(f"{sum(passed.values())} of {len(chosen)} trials passed: {by_name}", flush=True)
    return int(sum(passed.values()) < len(chosen))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:])))
