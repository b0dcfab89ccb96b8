"""Run folders: found, created, locked, and the splats in them.

Commands that only read take `open_run` or `find_splats`. Commands that write take `locked_run` or `new_locked_run`,
because only one process at a time may write to a folder.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from splat_cli.errors import UsageError, quoted
from splat_cli.io.files import is_leftover, remove_leftovers
from splat_cli.io.folder_lock import LOCK_NAME, locked_folder, unwritable
from splat_cli.run.storage.run_dir import BEGUN, RunDir, is_record
from splat_cli.scene.formats import has_dataset, num_photographs

_SHOWN = 3  # maximum number of runs named in a message


def is_run(path: Path) -> bool:
    """Whether `path` is the folder of a run."""
    return (path / "config.toml").is_file() and (path / "cameras.json").is_file()


def open_run(path: Path) -> RunDir:
    """The run at `path`; UsageError if no run is there."""
    if not path.exists():
        raise UsageError(f"{path} does not exist; name the folder of a run")
    if not is_run(path):
        raise UsageError(f"{path} is not the folder of a run{_advice(path)}")
    return RunDir(path)


def runs_in(folder: Path) -> list[RunDir]:
    """The runs in a folder and in the folders in it, sorted by path."""
    configs = [*folder.glob("*/config.toml"), *folder.glob("*/*/config.toml")]
    return [RunDir(path) for path in sorted(config.parent for config in configs) if is_run(path)]


def _advice(path: Path) -> str:
    """End of a message on a path that is not a run: the runs inside or around it, or how to train one."""
    if nested := runs_in(path):
        return f", but holds {len(nested)}: give {' or '.join(str(run.path) for run in nested[:_SHOWN])}"
    if around := run_around(path):
        return f", but inside of one: give {around}"
    if has_dataset(path) or num_photographs(path):
        return f", but holds photographs or a scene: `splat train {quoted(path)}` trains on it"
    return ": it has no config.toml and cameras.json; name a folder that `splat train` filled"


def run_around(path: Path) -> Path | None:
    """The run whose folder contains the path; None outside of runs."""
    return next(filter(is_run, (*path.parents, *path.resolve().parents)), None)


def refuse_inside_run(folder: Path) -> None:
    """UsageError if `folder`, for new runs, is inside a run, which removes files of interrupted writes."""
    around = run_around(folder)
    if around and not (around / "city.json").is_file():  # the stages of a city are runs, too
        raise UsageError(f"{folder} is inside the run {around}: name a folder outside it")


def find_splats(path: Path) -> tuple[Path, RunDir | None]:
    """(PLY file, run): for a run, its last splats; for a file, the file itself and the run that saved it, if any."""
    if path.is_file():
        around = path.resolve().parents
        run = RunDir(around[2]) if len(around) > 2 and is_run(around[2]) else None
        saved = map(run.ply_path, run.saved_steps()) if run else ()
        return path, run if any(map(path.samefile, saved)) else None
    if not path.exists():
        raise UsageError(f"{path} does not exist; name the folder of a run or a file of splats")
    run = open_run(path)
    steps = run.saved_steps()
    if not steps:
        raise UsageError(f"{path} has no splats yet: there is no point_cloud/iteration_N/point_cloud.ply")
    return run.ply_path(steps[-1]), run


def refuse_file_of_run(out: Path) -> None:
    """UsageError if `out`, a file to write, is a folder, or a record, a checkpoint or saved splats of a run."""
    if out.is_dir():
        raise UsageError(f"{out} is a folder; give the name of a file to write")
    file = out.resolve()
    around = next(filter(is_run, file.parents), None)
    if around and is_record(file.relative_to(around)):
        raise UsageError(f"{out} is a file of the run {around}: name another file to write")


def step_of(ply: Path) -> int:
    """The step after which a run saved the file, parsed from the folder's name."""
    return int(ply.resolve().parent.name.removeprefix("iteration_"))


@contextmanager
def new_locked_run(path: Path) -> Iterator[RunDir]:
    """Create and lock `path` for a new run; removed if an error leaves it empty.

    UsageError if it cannot be created or written, or is not empty. Files of a run that was killed before it began
    do not count.
    """
    with locked_folder(path, make=True):
        if is_run(path):
            raise UsageError(
                f"{path} holds a run: `splat train --resume {quoted(path)}` continues it; or name another folder"
            )
        require_free(path)
        refuse_inside_run(path)
        _check_writable(path)
        remove_leftovers(path)
        yield RunDir(path)


@contextmanager
def locked_run(path: Path) -> Iterator[RunDir]:
    """The run at `path`, locked for writing. UsageError if no run is there, or another process has locked it."""
    run = open_run(path)
    with locked_folder(path):
        remove_leftovers(path)
        yield run


def unused_folder(path: Path) -> Path:
    """`path`, or the first of `path`-2, `path`-3, ... that does not exist."""
    return next(
        folder
        for folder in numbered_folders(path)
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    )


def numbered_folders(path: Path) -> Iterator[Path]:
    """Yields `path`, `path`-2, `path`-3, ... without end."""
    yield path
    for number in itertools.count(2):
        yield path.with_name(f"{path.name}-{number}")


def require_free(path: Path) -> None:
    """UsageError if a folder holds more than files of a run that was killed before it began."""
    begun = BEGUN if (path / BEGUN[0]).is_file() else ()
    if not all(is_leftover(entry) or entry.name in (LOCK_NAME, *begun) for entry in path.iterdir()):
        raise UsageError(f"{path} holds other files: name another folder, or an empty one")


def _check_writable(folder: Path) -> None:
    probe = folder / ".writable.part"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise unwritable(folder, error) from None
