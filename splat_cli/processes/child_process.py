"""Child processes that end with their parent: the system then closes the pipe to their standard input.

This works on all systems, however the parent ends. Linux's PR_SET_PDEATHSIG is not usable: it is sent when the thread
that started the child ends, and threads start jobs.

`python -m splat_cli.processes.child_process ARGUMENTS...` runs `splat ARGUMENTS...`, which saves and ends with its
parent.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import splat_cli

_SAVING = 60.0  # seconds for a command to save
NEW_SESSION: dict[str, Any] = {"start_new_session": True}
"""Arguments of Popen for a process that the terminal's Ctrl-C does not reach."""
if sys.platform == "win32":
    NEW_SESSION = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}


def child_environment(changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """Environment variables of this process, with this package on the path, and `changes`; None removes one."""
    paths = [str(Path(splat_cli.__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **(changes or {})}
    return {name: value for name, value in variables.items() if value is not None}


def start_worker(
    program: str, *arguments: str, stderr: int = subprocess.DEVNULL, encoding: str | None = None
) -> subprocess.Popen[Any]:
    """A child process that runs a line of Python, with pipes to its standard input and output.

    It has its own session: Ctrl-C reaches only the parent. encoding: encoding of the pipes' text; None for bytes.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-c", program, *arguments],
        env=child_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        encoding=encoding,
        errors=encoding and "replace",
        **NEW_SESSION,
    )


def ending(code: int) -> str:
    """A child process's exit code in words. A negative code means the signal that ended the process."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def kill(process: subprocess.Popen[Any]) -> None:
    """End a child process, if it still runs, and close the pipes to its standard input and output."""
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        with suppress(BrokenPipeError):
            if stream:
                stream.close()


def receive(stream: IO[bytes], buffer: memoryview) -> None:
    """Fill a buffer of bytes from a pipe; ValueError without a message if the pipe ends early."""
    while buffer:
        num = stream.readinto(buffer)  # type: ignore[attr-defined]
        if not num:
            raise ValueError
        buffer = buffer[num:]


def limit_memory(num_bytes: int) -> None:
    """Limit further allocations to `num_bytes` in total; Linux only.

    Memory allocated so far is not counted: NumPy's OpenBLAS takes 40 MiB per core, more than 1 GiB on a server.
    """
    try:
        import resource

        data_pages = int(Path("/proc/self/statm").read_text().split()[5])
    except (ImportError, OSError):
        return
    limit, hard = data_pages * resource.getpagesize() + num_bytes, resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def end_with_parent(saving: float = 0.0) -> None:
    """End this process when its standard input ends; nothing else may read the input.

    saving: seconds between SIGTERM, which saves a run, and the forced end.
    """
    threading.Thread(target=_end_with_input, args=(saving,), daemon=True).start()


def _end_with_input(saving: float) -> None:
    while os.read(0, 4096):
        pass
    if saving:
        if sys.platform == "win32":  # os.kill would end the process at once
            signal.raise_signal(signal.SIGTERM)
        else:
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(saving)
    os._exit(1)


if __name__ == "__main__":
    end_with_parent(_SAVING)
    sys.argv[0] = "splat"
    runpy.run_module("splat_cli", run_name="__main__")
