"""The faulty disk as a shared library, and the environment of a process that has it preloaded."""

import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from splat_cli.device.compilation.host_compiler import find_compiler
from tests.subprocesses import environment, finished, started


def preloaded(folder: Path) -> dict[str, str]:
    """Compiles faulty_disk.cpp into `folder`; returns variables for a process with a disk that can fail."""
    library = folder / "faulty_disk.so"
    source = Path(__file__).with_name("faulty_disk.cpp")
    compiler, flags = find_compiler(), ("-std=c++17", "-O1", "-fPIC")
    commands = [[*compiler.command, *flags, "-shared", source, "-o", library, "-ldl"]]
    if compiler.linker:  # zig would first spend a minute on compiling its C++ library
        unlinked = folder / "faulty_disk.o"
        commands = [
            [*compiler.command, *flags, "-fno-threadsafe-statics", "-c", source, "-o", unlinked],
            [*compiler.linker, unlinked, "-o", library],
        ]
    for command in commands:
        built = finished(command)
        assert built.returncode == 0, built.stderr
    return environment(LD_PRELOAD=library)


def start_trials(
    scene: Path, folder: Path, trials: int, job: int, num_jobs: int, seed: int
) -> AbstractContextManager["subprocess.Popen[str]"]:
    """A process that runs and prints one job's part of the trials (trial.main) in `folder`."""
    folder.mkdir()
    numbers = map(str, (trials, job, num_jobs, seed))
    command = [sys.executable, "-m", "tests.faults.trial", scene, folder, *numbers]
    return started(command, env=preloaded(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
