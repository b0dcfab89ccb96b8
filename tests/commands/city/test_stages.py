"""Order of the jobs of a city."""

import dataclasses
import json
import signal
from pathlib import Path

import pytest

from splat_cli.commands.city import cell, stages
from splat_cli.commands.city.city import City
from splat_cli.commands.city.stages import _run, _run_on_gpus, _train_here, coarse_jobs, last_jobs
from splat_cli.config import TrainConfig
from splat_cli.device import open_backend
from splat_cli.engine.job import Job, JobResult
from splat_cli.errors import KernelError, OutOfMemory, SplatError, UsageError, kernel_error_before
from splat_cli.run.storage.result import RunSummary
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.terminal.console import Display, Level
from splat_cli.terminal.interrupt import Interrupted, Terminated
from splat_cli.terminal.phase_timer import PhaseTimer


class RecordingEngine:
    """Engine that ends the latest jobs first. events: "+name" when a job is submitted, "-name" when it ends.

    ranks_output: output of the job whose ranks are run, None if no GPU is free.
    """

    def __init__(self, failing: str = "", ranks_output: dict | None = None, exit_code: int = 1) -> None:
        self._ranks_output, self._failure = ranks_output, {"error": "lost", "exit_code": exit_code}
        self.events, self._jobs, self._failing = [], [], failing

    def run_ranks(self, jobs):
        self.events.append(f"ranks {sorted(jobs)}")
        if self._ranks_output is None:
            return None
        return JobResult(jobs[max(jobs)], 0, 1.0, "here", json.dumps(self._ranks_output), "")

    def submit(self, job):
        self.events.append(f"+{job.name}")
        self._jobs.append(job)

    def results(self):
        while self._jobs:
            job = self._jobs.pop()
            self.events.append(f"-{job.name}")
            output = self._failure if job.name == self._failing else {"num_splats": 7}
            # a worker returns a copy
            yield JobResult(dataclasses.replace(job, inputs=()), 0, 1.0, "here", json.dumps(output), "")


@pytest.fixture
def city(tmp_path):
    return City(tmp_path, tmp_path, TrainConfig(), 100, 100, None, None, "cpu")


def jobs(folder: Path) -> dict[Job, set[str]]:
    """Two independent jobs, a third that waits for the second, a fourth that waits for the third."""
    names = {"a": set(), "b": set(), "c": {"b"}, "d": {"c"}}
    return {
        Job(name, (), folder, folder / "log", folder / name, (), (folder,)): before for name, before in names.items()
    }


def test_a_job_begins_when_those_before_it_have_ended(city, tmp_path):
    engine = RecordingEngine()
    _run(city, jobs(tmp_path), engine, Display(level=Level.QUIET))
    assert engine.events == ["+a", "+b", "-b", "+c", "-c", "+d", "-d", "-a"]


def test_no_job_begins_after_one_before_it_has_failed(city, tmp_path):
    engine = RecordingEngine(failing="b")
    with pytest.raises(SplatError, match="b: lost; the same command continues"):
        _run(city, jobs(tmp_path), engine, Display(level=Level.QUIET))
    assert engine.events == ["+a", "+b", "-b", "-a"]


def test_a_usage_error_of_a_job_is_one_of_the_command(city, tmp_path):
    """Repeating the same command would not help."""
    engine = RecordingEngine(failing="b", exit_code=2)
    with pytest.raises(UsageError, match="^b: lost$"):
        _run(city, jobs(tmp_path), engine, Display(level=Level.QUIET))


@pytest.mark.parametrize(
    ("output", "events"),
    [
        ({"num_splats": 7}, ["ranks [2, 4]"]),
        (None, ["ranks [2, 4]", "+coarse", "-coarse"]),
        ({"error": "needs NCCL"}, ["ranks [2, 4]", "+coarse", "-coarse"]),
    ],
    ids=["ranks", "one GPU", "no NCCL"],
)
def test_the_coarse_run_is_of_several_gpus_where_ranks_start(city, capsys, output, events):
    engine = RecordingEngine(ranks_output=output)
    jobs = coarse_jobs(dataclasses.replace(city, coarse_batch=4))
    _run_on_gpus(city, jobs, engine, Display(level=Level.NORMAL))
    assert engine.events == events
    told = "continues on one GPU: needs NCCL" in capsys.readouterr().err
    assert told == (output == {"error": "needs NCCL"})


@pytest.mark.parametrize(
    ("batch", "options", "sizes"),
    [
        (None, {}, [1]),
        (1, {}, [1]),
        (4, {}, [1, 4, 2]),
        (6, {}, [1, 6, 3, 2]),
        (4, {"pose_opt": True}, [1]),
        (4, {"appearance": "exposure"}, [1]),
        (48, {}, [1, 16, 12, 8, 6, 4, 3, 2]),
    ],
    ids=str,
)
def test_gpus_of_the_coarse_run_divide_its_batch(city, batch, options, sizes):
    jobs = coarse_jobs(dataclasses.replace(city, coarse_batch=batch, config=TrainConfig(**options)))
    assert list(jobs) == sizes
    for size, job in jobs.items():
        assert f"--gpus={size}" in job.resume_arguments
        assert size == 1 or f"--gpus={size}" in job.arguments
        assert batch is None or f"--batch={batch}" in job.arguments


@pytest.mark.parametrize(
    ("batch", "options", "sizes"),
    [(None, {}, [1]), (4, {}, [1, 4, 2]), (4, {"pose_opt": True}, [1, 4, 2]), (4, {"robust": True}, [1])],
    ids=str,
)
def test_gpus_of_the_last_pass_divide_its_batch(city, batch, options, sizes):
    """Poses and exposures are those of the coarse run."""
    jobs = last_jobs(dataclasses.replace(city, last_batch=batch, config=TrainConfig(**options)))
    assert list(jobs) == sizes
    assert all(f"--gpus={size}" in job.command() for size, job in jobs.items())


@pytest.mark.parametrize(
    ("num", "sizes", "failing", "tried", "place"),
    [
        (1, [4, 2], (), [1], ""),
        (3, [4, 2], (), [2], "GPU 5, GPU 6"),
        (3, [4], (), [1], "GPU 5"),
        (3, [4, 2], (2,), [2, 1], "GPU 5"),
    ],
    ids=["one", "of three", "too few", "no NCCL"],
)
def test_gpus_of_a_run_in_this_process(city, capsys, monkeypatch, num, sizes, failing, tried, place):
    devices = [{"CUDA_VISIBLE_DEVICES": name} for name in "567"] if num > 1 else [{}]
    monkeypatch.setattr(stages, "device_environments", lambda device: devices)
    sizes_tried, used, freed = [], [], []
    monkeypatch.setattr(stages, "free_memory", freed.append)

    def train(backend, gpus, display, timer):
        sizes_tried.append(gpus)
        used.append(backend)
        if gpus in failing:
            raise UsageError("needs NCCL")
        return RunSummary(city.coarse, 9, 7, 1.0, None, {})

    _train_here(city, "coarse", city.coarse, train, sizes, Display(level=Level.NORMAL))
    assert sizes_tried == tried
    assert freed == used  # only the backend that trained knows its memory of the host
    assert ("continues on one GPU: needs NCCL" in capsys.readouterr().err) == bool(failing)
    assert json.loads((city.out / "seconds.json").read_text())["coarse"]["place"] == place


@pytest.mark.parametrize("raised", [RuntimeError("illegal access"), KernelError("illegal access")], ids=repr)
def test_a_process_whose_device_failed_tries_no_other_number_of_gpus(city, monkeypatch, raised):
    """All that it does on a GPU fails then; the same command starts a new one."""
    devices = [{"CUDA_VISIBLE_DEVICES": name} for name in "01"]
    monkeypatch.setattr(stages, "device_environments", lambda device: devices)
    tried = []

    def train(backend, gpus, display, timer):
        tried.append(gpus)
        raise raised

    with pytest.raises(SplatError, match="^coarse: illegal access; the same command continues") as error:
        _train_here(city, "coarse", city.coarse, train, [2], Display(level=Level.QUIET))
    assert tried == [2]
    assert kernel_error_before(error.value) is (raised if isinstance(raised, KernelError) else None)


def test_the_coarse_run_that_another_command_finished_is_taken(city, monkeypatch):
    finished = RunSummary(city.coarse, 9, 7, 1.0, None, {})
    monkeypatch.setattr(cell, "is_run", lambda path: False)
    monkeypatch.setattr(RunDir, "result", lambda run: {"steps": 9})
    monkeypatch.setattr(cell, "read_result", lambda run: finished if run == city.coarse else None)
    backend, display = open_backend("cpu"), Display(level=Level.QUIET)
    assert cell.train_coarse(city, backend, 1, display, PhaseTimer("starting")) is finished


@pytest.mark.parametrize(
    ("raised", "kind", "message", "code"),
    [
        (Interrupted("state saved", Terminated(signal.SIGTERM)), Interrupted, "^Interrupted; run the same", 143),
        (KeyboardInterrupt(), Interrupted, "^Interrupted; run the same", 130),
        (UsageError("no photograph"), UsageError, "^coarse: no photograph$", 2),
        (OutOfMemory("splats"), SplatError, "^coarse: splats; the same command continues", 1),
        (MemoryError(), SplatError, "^coarse: MemoryError; the same command continues", 1),
        (RuntimeError("CUDA"), SplatError, "^coarse: CUDA; the same command continues", 1),
    ],
    ids=["SIGTERM", "Ctrl-C", "usage", "memory of the device", "memory", "CUDA"],
)
def test_an_error_of_a_run_in_this_process_is_one_of_the_city(city, raised, kind, message, code):
    def train(backend, gpus, display, timer):
        raise raised

    with pytest.raises(kind, match=message) as error:
        _train_here(city, "coarse", city.coarse, train, [], Display(level=Level.QUIET))
    assert error.value.exit_code == code
