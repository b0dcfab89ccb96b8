"""Stages of a city: a coarse run over the whole scene, a run per cell, their union. Finished stages are kept."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from splat_cli.commands.city.cell import train_cell, train_coarse
from splat_cli.commands.city.city import City
from splat_cli.commands.city.merge import finish, merge_cells
from splat_cli.commands.city.plan import CellFiles, CityPlan, divide, read_plan
from splat_cli.commands.city.seconds import show_job, show_run, timed
from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.engine import INTERRUPTED, Engine, open_engine
from splat_cli.engine.engine import LOCK_PATIENCE
from splat_cli.engine.job import Job, resumed_on, train_job
from splat_cli.engine.process import describe_device, device_environments
from splat_cli.errors import KernelError, SplatError, UsageError, one_line, reason_of
from splat_cli.io.files import entries, remove_leftovers
from splat_cli.io.folder_lock import wait_until_unlocked
from splat_cli.run.device import open_device
from splat_cli.run.resume import free_memory
from splat_cli.run.storage.result import RunSummary, read_result
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.terminal.console import Display
from splat_cli.terminal.interrupt import Interrupted
from splat_cli.terminal.phase_timer import PhaseTimer


def train_city(city: City, display: Display) -> RunSummary:
    """Run the stages that are not finished. The folder is locked.

    SplatError naming the cells that failed; Interrupted.
    """
    cells = [path for path in entries(city.out / "cells") if path.is_dir()]
    remove_leftovers(city.out, except_below=[city.coarse.path, *cells])  # there, lost workers may still write
    if city.out.joinpath("result.json").is_file():
        if cells and _lacks_last_pass(city):
            display.warn(f"{city.out} was finished without the last pass: remove its result.json to train that pass")
        return read_result(RunDir(city.out))
    plan = read_plan(city.out)
    if plan is None or not city.coarse.result() or _unfinished(city, plan) or _lacks_last_pass(city):
        plan = _train_parts(city, plan, display)
    plan.require_coarse(city.coarse)
    backend = open_device(city.device, city.config, display)
    with timed(city.out, "merge", display):
        run = merge_cells(city.coarse, city.out, plan)
    with timed(city.out, "evaluation", display):
        return finish(run, city.coarse, plan, backend, display)


def _train_parts(city: City, plan: CityPlan | None, display: Display) -> CityPlan:
    """Train the coarse run, the cells and the last pass. plan: None if the scene is not divided yet."""
    is_here = city.cluster is None  # the coarse run and the last pass: a process of their own would start later
    if is_here and not city.coarse.result():
        _announce_coarse(city, display)
        _train_here(city, "coarse", city.coarse, partial(train_coarse, city), city.gpus_of_coarse_run(), display)
    with open_engine(city.device, city.cluster, display.say) as engine:
        if not city.coarse.result():
            _announce_coarse(city, display)
            _run_on_gpus(city, coarse_jobs(city), engine, display)
        if plan is None:
            with timed(city.out, "division", display):
                backend = open_device(city.device, city.config, display)
                plan = divide(city.coarse, city.out, city.cell_splats, city.max_splats, backend, display)
                backend.release_cached()  # the jobs need the memory
        plan.require_coarse(city.coarse)
        display.say(f"{len(plan.cells)} cells in {1 + max(cell.round for cell in plan.cells)} rounds")
        with timed(city.out, "cells", display):
            _train_cells(city, plan, engine, display)
        if _lacks_last_pass(city) and not is_here:
            _run_on_gpus(city, last_jobs(city), engine, display)
    if _lacks_last_pass(city):
        run = CellFiles.of(city.out, None).run
        _train_here(city, "last pass", run, partial(train_cell, city, None), city.gpus_of_last_pass(), display)
    return plan


def _announce_coarse(city: City, display: Display) -> None:
    display.say(f"Coarse run: up to {min(city.cell_splats, city.max_splats):,} splats, {city.coarse.path}")


def _train_here(
    city: City,
    name: str,
    run: RunDir,
    train: Callable[[Backend, int, Display, PhaseTimer], RunSummary],
    sizes: Sequence[int],
    display: Display,
) -> None:
    """Train a run in this process, on the largest possible number of this machine's GPUs; the result is the same.

    train: trains it on a number of GPUs. sizes: possible numbers, except 1. Continues on one GPU if several fail.
    SplatError, as `_run`; Interrupted.
    """
    devices, start, failure = device_environments(city.device), time.perf_counter(), None
    backend = open_device(city.device, city.config, display)
    gpus = max((size for size in sizes if size <= len(devices)), default=1)
    with _as_stage(name):
        wait_until_unlocked(run.path, LOCK_PATIENCE, lambda: False, lambda text: display.say(f"{name}: {text}"))
        try:
            result = train(backend, gpus, display, PhaseTimer("starting"))
        except (SplatError, MemoryError) as error:  # after CuPy's RuntimeErrors, this process can use no GPU
            if gpus == 1 or isinstance(error, (Interrupted, KernelError)):
                raise
            failure = one_line(error)  # not the error itself: it keeps the trainer's memory
        free_memory(backend)  # the cells, the evaluation or one GPU need it
        if failure is not None:
            display.warn(f"{name} continues on one GPU: {failure}")
            gpus, result = 1, train(backend, 1, display, PhaseTimer("starting"))
            free_memory(backend)
    place = ", ".join(describe_device(one) for one in devices[:gpus])
    show_run(city.out, name, run, time.perf_counter() - start, place, result.num_splats, display)


@contextmanager
def _as_stage(name: str) -> Iterator[None]:
    """Context that trains a run: errors name this stage."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt) as error:
        raise Interrupted(INTERRUPTED, error) from None
    except SplatError as error:
        raise _failure([(name, {"error": str(error), "exit_code": error.exit_code})]) from None
    except (RuntimeError, MemoryError) as error:  # CuPy raises RuntimeErrors
        raise _failure([(name, {"error": reason_of(error), "exit_code": 1})]) from error


def _run_on_gpus(city: City, jobs: dict[int, Job], engine: Engine, display: Display) -> None:
    """Run a job on the largest possible number of free workers; the result is the same. jobs: for each number, and 1.

    Runs it on one worker if fewer than two are free, or if ranks fail.
    """
    single = jobs.pop(1)
    single.log.parent.mkdir(parents=True, exist_ok=True)
    ended = engine.run_ranks(jobs) if jobs else None
    row = ended.json_output() if ended else {}
    if ended and "error" not in row:
        show_job(city.out, ended, row["num_splats"], display)
        return
    if ended:
        display.warn(f"{single.name} continues on one GPU: {row['error']}")
    _run(city, {single: set()}, engine, display)


def _unfinished(city: City, plan: CityPlan) -> list[int]:
    """The cells whose training is not finished."""
    return [i for i in range(len(plan.cells)) if not CellFiles.of(city.out, i).run.result()]


def _lacks_last_pass(city: City) -> bool:
    return city.last_steps != 0 and not CellFiles.of(city.out, None).run.result()


def _train_cells(city: City, plan: CityPlan, engine: Engine, display: Display) -> None:
    """Train the unfinished cells, each once the cells before it have ended.

    If several can begin, the cell that blocks most others begins first.
    """
    left = _unfinished(city, plan)
    if left:
        shutil.rmtree(CellFiles.of(city.out, None).folder, ignore_errors=True)  # begun with other splats
    before = {i: [other for other in plan.before(i) if other in left] for i in left}
    num_waiting = Counter(itertools.chain.from_iterable(before.values()))
    jobs = {i: cell_job(city, i, num_waiting[i]) for i in left}
    _run(city, {jobs[i]: {jobs[other].name for other in before[i]} for i in left}, engine, display)


def _run(city: City, before: dict[Job, set[str]], engine: Engine, display: Display) -> None:
    """Run all jobs. before: job -> names of the jobs that it waits for. SplatError if some failed."""
    failed = list[tuple[str, dict[str, Any]]]()

    def submit_ready() -> None:
        for job in [job for job, names in before.items() if not names]:
            del before[job]
            job.log.parent.mkdir(parents=True, exist_ok=True)
            engine.submit(job)

    submit_ready()
    for ended in engine.results():
        row = ended.json_output()
        if "error" in row:
            failed.append((ended.job.name, row))
            continue
        show_job(city.out, ended, row["num_splats"], display)
        for names in before.values():
            names.discard(ended.job.name)
        submit_ready()
    if failed:
        raise _failure(failed)


def _failure(failed: list[tuple[str, dict[str, Any]]]) -> SplatError:
    """The error for failed jobs, (name, output); UsageError if the first would fail again."""
    (name, row), *others = failed
    line = f"{name}: {row['error']}" + f" and {len(others)} more" * bool(others)
    if row.get("exit_code") == UsageError.exit_code:
        return UsageError(line)
    return SplatError(f"{line}; the same command continues with what is left")


def coarse_jobs(city: City) -> dict[int, Job]:
    """The coarse job for each number of GPUs. All give the result of one GPU, and can resume each other's run.

    Only for one GPU if the city has no record of the batch size.
    """
    config, sizes = city.coarse_config(), (1, *city.gpus_of_coarse_run())
    return {size: _job(city, dataclasses.replace(config, gpus=size)) for size in sizes}


def _job(city: City, config: TrainConfig) -> Job:
    return resumed_on(train_job("coarse", city.scene, city.coarse.path, config, city.device), config.gpus)


def last_jobs(city: City) -> dict[int, Job]:
    """The job of the last pass for each number of GPUs, as `coarse_jobs`."""
    return {gpus: cell_job(city, None, gpus=gpus) for gpus in (1, *city.gpus_of_last_pass())}


def cell_job(city: City, number: int | None, priority: int = 0, gpus: int = 1) -> Job:
    """`splat cell --json`, which resumes an interrupted run. number: None for the last pass. priority: see `Job`."""
    files, numbers = CellFiles.of(city.out, number), () if number is None else (str(number),)
    command = ("cell", str(city.out), *numbers, "--json", "--device", city.device, f"--gpus={gpus}")
    inputs, log = (city.scene, city.coarse.path), files.folder / "run.log"
    name = "last pass" if number is None else f"cell {number}"
    return Job(name, command, Path.cwd(), log, files.run.path, command, inputs, priority)
