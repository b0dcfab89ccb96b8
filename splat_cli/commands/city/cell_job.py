"""The job of a cell: one process prepares its files and trains it."""

from __future__ import annotations

from pathlib import Path

from splat_cli.commands.city.city import City, read_city
from splat_cli.commands.city.plan import CellFiles, read_plan
from splat_cli.commands.city.prepare import prepare_cell
from splat_cli.engine.job import Job
from splat_cli.errors import UsageError
from splat_cli.io.files import remove_leftovers
from splat_cli.io.folder_lock import locked_folder
from splat_cli.run.device import open_device
from splat_cli.run.resume import Resumption, free_memory, plan_resumption
from splat_cli.run.storage.find_run import is_run
from splat_cli.run.storage.result import RunSummary, read_result
from splat_cli.run.train_scene import train_scene
from splat_cli.terminal.console import Display
from splat_cli.terminal.phase_timer import PhaseTimer


def cell_job(city: City, number: int, priority: int) -> Job:
    """`splat cell --json`, which resumes by itself what it has begun. priority: see `Job`."""
    files = CellFiles.of(city.out, number)
    command = ("cell", str(city.out), str(number), "--json", "--device", city.device)
    inputs, log = (city.scene, city.coarse.path), files.folder / "run.log"
    return Job(f"cell {number}", command, Path.cwd(), log, files.run.path, command, inputs, priority)


def train_cell(out: Path, number: int, device: str, display: Display, timer: PhaseTimer) -> RunSummary:
    """Prepare a cell of the city in `out`, and train it to its end. Its run is locked from the start. UsageError."""
    city, plan, files = read_city(out, device), read_plan(out), CellFiles.of(out, number)
    if plan is None or number not in range(len(plan.cells)):
        raise UsageError(f"{out} has no cell {number}: `splat city` plans cells and starts this command for each")
    with locked_folder(files.run.path, make=True):
        remove_leftovers(files.run.path)
        if files.run.result():
            return read_result(files.run)
        backend = open_device(device, city.config, display)
        with timer("preparation"):
            prepare_cell(city.coarse, out, plan, number, backend, display)
            free_memory(backend)  # training plans with what is free
        start = Resumption(files.scene, city.cell_config(plan, number), None)
        if is_run(files.run.path):
            start = plan_resumption(files.run, files.scene, {}, display)
        return train_scene(start.scene, files.run, start.config, backend, display, start.checkpoint, timer=timer)
