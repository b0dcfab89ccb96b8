"""Wall-clock seconds of the stages and jobs of a city: lines while it runs, and OUT/seconds.json."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from splat_cli.engine.job import JobResult
from splat_cli.errors import DiskError, FormatError
from splat_cli.io.files import replacing
from splat_cli.run.storage.run_dir import RunDir, sum_phases
from splat_cli.scene.cameras_json import read_json
from splat_cli.terminal.console import Display


@contextmanager
def timed(out: Path, stage: str, display: Display) -> Iterator[None]:
    """Show and record the seconds of a stage, unless it fails."""
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    display.say(f"{stage}: {seconds:.1f} s")
    _record(out, stage, round(seconds, 3), display)


def show_job(out: Path, ended: JobResult, num_splats: int, display: Display) -> None:
    """`show_run` of the run that a job has trained."""
    assert ended.job.run is not None
    show_run(out, ended.job.name, RunDir(ended.job.run), ended.seconds, ended.place, num_splats, display)


def show_run(out: Path, name: str, run: RunDir, seconds: float, place: str, num_splats: int, display: Display) -> None:
    """Show and record the seconds of a trained run and of its phases. place: where it was trained."""
    phases = sum_phases(run.log.entries())
    prepared = f"prepared in {phases['preparation']:.1f} s, " if "preparation" in phases else ""
    display.say(f"{name}: {prepared}{num_splats:,} splats in {seconds:.1f} s")
    _record(out, name, {"seconds": round(seconds, 3), "place": place, "phases": phases}, display)


def _recorded(path: Path) -> dict[str, Any]:
    """The recorded seconds; empty if the file is damaged, because the command must go on."""
    try:
        found = read_json(path) if path.is_file() else {}
    except FormatError:
        return {}
    return found if isinstance(found, dict) else {}


def _record(out: Path, name: str, value: Any, display: Display) -> None:
    """Add an entry to seconds.json. A disk error is only a warning."""
    path = out / "seconds.json"
    before = _recorded(path)
    try:
        with replacing(path) as temporary:
            temporary.write_text(json.dumps({**before, name: value}, indent=1) + "\n", encoding="utf-8")
    except DiskError as error:
        display.warn(str(error))
