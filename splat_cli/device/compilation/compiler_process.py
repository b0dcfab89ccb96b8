"""Processes of the host's C++ compiler, which end with this process."""

import atexit
import os
import subprocess
from contextlib import suppress

import psutil

from splat_cli.child_process import NEW_SESSION

_running: set[subprocess.Popen[str]] = set()


def run_compiler(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a compiler to its end, without the sanitizer libraries that this process may have preloaded.

    In a session of its own: a Ctrl-C in the terminal reaches this process alone, which ends the compiler and its
    children when it ends itself. `variables`: added to the environment.
    """
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"} | variables
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
        env=environment, **NEW_SESSION,
    )  # fmt: skip
    try:  # not `with`, whose end waits for a compiler that a Ctrl-C before `communicate` has left running
        _running.add(process)
        out, err = process.communicate()
    except BaseException:
        _kill(process)
        process.wait()
        raise
    finally:
        _running.discard(process)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _kill(process: subprocess.Popen[str]) -> None:
    """Ends a compiler and the programs that it runs."""
    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()


@atexit.register
def _kill_all() -> None:
    """Ends compilers of threads that end with this process."""
    for process in tuple(_running):
        _kill(process)
