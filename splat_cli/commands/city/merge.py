"""Merges the trained cells into a run."""

from __future__ import annotations

import dataclasses
import shutil
from functools import partial
from pathlib import Path

from splat_cli.commands.city.cell import own_splats
from splat_cli.commands.city.plan import CellFiles, CityPlan, last_splats
from splat_cli.commands.city.seconds import timed
from splat_cli.commands.evaluate import evaluate_run
from splat_cli.device import Backend, num_cores
from splat_cli.errors import FormatError
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.editing.selection import merged
from splat_cli.gaussians.formats.streamed_sog import NAME, write_streamed_sog
from splat_cli.gaussians.ply import count_splats, read_ply, write_ply
from splat_cli.processes.threads import run_in_threads
from splat_cli.run.storage.result import RunSummary, read_result
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.cameras_json import read_cameras, read_json
from splat_cli.terminal.console import Display


def merge_cells(coarse: RunDir, out: Path, plan: CityPlan) -> RunDir:
    """Write the splats of all cells to `out`, with settings and cameras of the coarse run, but no result."""
    run, config = RunDir(out), coarse.config()
    splats = merged_splats(coarse, out, plan)
    runs = [CellFiles.of(out, number).run for number in range(len(plan.cells))]
    steps = max(read_result(one).steps for one in runs)
    _index(run).unlink(missing_ok=True)  # if the clock was set back, file times do not show that it is older
    write_ply(run.ply_path(steps), splats, durable=True)
    run.save_cameras(read_cameras(coarse.cameras_path))
    if coarse.split_path.is_file():
        shutil.copyfile(coarse.split_path, run.split_path)
    largest = max(len(splats), *(one.config().max_splats for one in runs))
    settings = dataclasses.replace(config, gpus=1, steps=steps, save_at=(), max_splats=largest)
    run.save_config(settings, coarse.scene_path(), coarse.provenance().get("device", ""), coarse.origin())
    return run


def merged_splats(coarse: RunDir, out: Path, plan: CityPlan) -> SplatArrays:
    """The splats of all cells (see `own_splats`), and the coarse splats that no cell has trained."""
    splats, numbers = last_splats(coarse), range(len(plan.cells))
    untrained = splats.select(~plan.filled(plan.places(splats), numbers))
    reads = (partial(own_splats, out, plan, number) for number in numbers)
    return merged([untrained, *run_in_threads(reads, num_cores())])


def levels_of(result: RunSummary, num_levels: int, display: Display) -> Path | None:
    """The index of the levels of detail in the folder of the city; None if no levels are wanted.

    Writes it if it is missing, older than the splats, or has another number of levels.
    """
    index, splats = _index(result.run), result.run.ply_path(result.steps)
    if num_levels and not _has_levels(index, splats, num_levels):
        with timed(result.run.path, "levels of detail", display):
            write_streamed_sog(index, read_ply(splats), num_levels)
    return index if num_levels else None


def _index(run: RunDir) -> Path:
    return run.path / "lod" / NAME


def _has_levels(index: Path, splats: Path, num_levels: int) -> bool:
    """Whether the index has this number of levels and is not older than the splats."""
    if not index.is_file() or index.stat().st_mtime_ns < splats.stat().st_mtime_ns:
        return False
    try:
        return bool(read_json(index)["lodLevels"] == num_levels)
    except (FormatError, KeyError, TypeError):
        return False


def finish(run: RunDir, coarse: RunDir, num_cells: int, backend: Backend, display: Display) -> RunSummary:
    """Evaluate the merged run, if photographs are held out, and write its result, which marks it as finished.

    DiskError if the scores of the photographs cannot be written.
    """
    parts = [read_result(one) for one in (coarse, *(CellFiles.of(run.path, i).run for i in range(num_cells)))]
    steps = run.saved_steps()[-1]
    num_splats = count_splats(run.ply_path(steps))
    score = None
    if run.config().eval:
        evaluation = evaluate_run(run.path, None, backend, display)
        if evaluation.unwritten:
            raise evaluation.unwritten  # the same command continues here
        score = evaluation.mean
    bad = {name: sum(part.nonfinite_counts[name] for part in parts) for name in parts[0].nonfinite_counts}
    result = RunSummary(run, steps, num_splats, sum(part.seconds for part in parts), score, bad)
    run.save_result(result.to_dict())
    return result
