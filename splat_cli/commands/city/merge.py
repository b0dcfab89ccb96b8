"""Merges the trained cells into a run."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from splat_cli.commands.city.cell import merged_splats
from splat_cli.commands.city.plan import CellFiles, CityPlan, last_splats
from splat_cli.commands.city.seconds import timed
from splat_cli.commands.evaluate import evaluate_run
from splat_cli.device import Backend
from splat_cli.errors import FormatError
from splat_cli.gaussians.editing.move import with_origin
from splat_cli.gaussians.formats.streamed_sog import NAME, write_streamed_sog
from splat_cli.gaussians.ply import count_splats, read_ply, write_ply
from splat_cli.run.storage.result import RunSummary, read_result
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.cameras_json import read_cameras, read_json
from splat_cli.terminal.console import Display


def merge_cells(coarse: RunDir, out: Path, plan: CityPlan) -> RunDir:
    """Write the splats of the last pass to `out`, with settings and cameras of the coarse run, but no result.

    Without a last pass, the splats of all cells.
    """
    run, config, last = RunDir(out), coarse.config(), CellFiles.of(out, None).run
    splats = last_splats(last) if last.result() else merged_splats(coarse, out, plan)
    splats = with_origin(splats, coarse.origin())  # cells do not know it
    runs = trained_runs(out, plan)
    steps = max(read_result(one).steps for one in runs)
    _index(run).unlink(missing_ok=True)  # if the clock was set back, file times do not show that it is older
    write_ply(run.ply_path(steps), splats, durable=True)
    run.save_cameras(read_cameras(coarse.cameras_path), coarse.origin())
    run.save_inputs(coarse.inputs(), coarse.input_points())
    if coarse.split_path.is_file():
        shutil.copyfile(coarse.split_path, run.split_path)
    largest = max(len(splats), *(one.config().max_splats for one in runs))
    settings = dataclasses.replace(config, gpus=1, steps=steps, save_at=(), max_splats=largest)
    run.save_config(settings, coarse.scene_path(), coarse.provenance().get("device", ""), coarse.origin())
    return run


def trained_runs(out: Path, plan: CityPlan) -> list[RunDir]:
    """The runs of the cells and of the last pass, if there was one."""
    runs = [CellFiles.of(out, number).run for number in (*range(len(plan.cells)), None)]
    return [run for run in runs if run.result()]


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


def finish(run: RunDir, coarse: RunDir, plan: CityPlan, backend: Backend, display: Display) -> RunSummary:
    """Evaluate the merged run, if photographs are held out, and write its result, which marks it as finished.

    DiskError if the scores of the photographs cannot be written.
    """
    parts = [read_result(one) for one in (coarse, *trained_runs(run.path, plan))]
    steps = run.saved_steps()[-1]
    num_splats = count_splats(run.ply_path(steps))
    score = None
    if run.config().eval:
        evaluation = evaluate_run(run.path, None, backend, display)
        if evaluation.save_error:
            raise evaluation.save_error  # the same command continues here
        score = evaluation.mean
    bad = {name: sum(part.nonfinite_counts[name] for part in parts) for name in parts[0].nonfinite_counts}
    result = RunSummary(run, steps, num_splats, sum(part.seconds for part in parts), score, bad)
    run.save_result(result.to_dict())
    return result
