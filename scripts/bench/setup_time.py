"""Time from a checkout to the first picture, by command: environment, installation, `splat demo`.

    python scripts/bench/setup_time.py
    python scripts/bench/setup_time.py --extras cpu,sfm --pip-cache ~/.cache/pip --keep /tmp/setup

As in a slim container: an empty home folder, no compiler, only the programs of the new environment. Unlike elapsed
time, CPU seconds of all processes do not depend on other load; the load average is printed with them.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_IGNORED = shutil.ignore_patterns(".git", ".venv", "venv", "runs", "scenes", "node_modules", "*_cache", "__pycache__")
_KEPT = ("PIP_", "SSL_", "REQUESTS_", "HTTP", "http", "NO_PROXY", "no_proxy", "LANG")
"""Prefixes of environment variables that a download may need."""


def main() -> None:
    """Parse the command line, run the commands, print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", default="cpu,sfm", help="of the package (default: %(default)s)")
    parser.add_argument("--pip-cache", type=Path, help="pip's cache; by default an empty one")
    parser.add_argument("--keep", type=Path, help="a new folder to work in, which is kept")
    args = parser.parse_args()
    with nullcontext(args.keep) if args.keep else tempfile.TemporaryDirectory() as folder:
        root = Path(folder).absolute()
        shutil.copytree(ROOT, root / "checkout", ignore=_IGNORED)
        for command in _commands(root, args.extras):
            _measure(command, root, args.pip_cache)


def _commands(root: Path, extras: str) -> list[list[str]]:
    """Commands of the README."""
    binaries = root / "venv" / "bin"
    return [
        [sys._base_executable, "-m", "venv", str(root / "venv")],  # type: ignore[attr-defined]
        [str(binaries / "pip"), "install", "--quiet", f".[{extras}]"],
        [str(binaries / "splat"), "demo", "--device", "cpu", "--quiet"],
    ]


def _measure(command: list[str], root: Path, pip_cache: Path | None) -> None:
    """Run one command; print its CPU seconds and elapsed seconds. Ends the script if it fails."""
    environment = {name: value for name, value in os.environ.items() if name.startswith(_KEPT)}
    environment |= {"PATH": str(root / "venv" / "bin"), "HOME": str(root / "home")}
    environment |= {"PIP_CACHE_DIR": str(pip_cache.absolute())} if pip_cache else {}
    start, before = time.perf_counter(), _cpu_seconds()
    done = subprocess.run(command, cwd=root / "checkout", env=environment, check=False)
    seconds, cpu = time.perf_counter() - start, _cpu_seconds() - before
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed with exit code {done.returncode}")
    name = " ".join(Path(word).name if word.startswith("/") else word for word in command)
    print(f"{cpu:6.1f} CPU s  {seconds:6.1f} s  load {os.getloadavg()[0]:4.1f}  {name}", flush=True)


def _cpu_seconds() -> float:
    """CPU seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
