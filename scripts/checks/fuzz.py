"""Fuzzes every reader, guided by code coverage, for a given time.

`pip install atheris && python scripts/checks/fuzz.py --minutes 5`: prints one line per reader with its numbers
of inputs and covered edges. Exits with 1 if a reader fails a check of tests/fuzz/attack.py; the corpus then holds the
input.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_STATUS = re.compile(r"#(\d+)\s+\w+\s+cov: (\d+)")


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="for all readers together")
    parser.add_argument("--only", default="", help="only readers whose names contain this")
    parser.add_argument("--corpus", type=Path, default=Path("fuzz_corpus"), help="folder of inputs, kept between runs")
    options = parser.parse_args()
    names = [name for name in _reader_names() if options.only in name]
    seconds = max(1, round(60 * options.minutes / len(names)))
    failed = [name for name in names if not _fuzz(name, seconds, options.corpus / re.sub(r"\W+", "_", name))]
    print(f"{len(names) - len(failed)} of {len(names)} readers kept their promises in {seconds} s each")
    return 1 if failed else 0


def _reader_names() -> list[str]:
    listing = "from tests.fuzz.readers import TARGETS; print('\\n'.join(target.name for target in TARGETS))"
    return subprocess.run(
        [sys.executable, "-c", listing], cwd=_ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()


def _fuzz(name: str, seconds: int, corpus: Path) -> bool:
    """Attacks one reader in its own process. If that fails, prints the end of its output and returns False."""
    command = [sys.executable, "-m", "tests.fuzz.guided", name, str(seconds), str(corpus.resolve())]
    ended = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, errors="replace")
    printed = ended.stderr + ended.stdout
    status = _STATUS.findall(printed)
    tries, reached = status[-1] if status else ("0", "0")
    print(
        f"{name:<28} {int(tries):9,} inputs {int(reached):6,} edges  {'' if ended.returncode == 0 else 'FAILED'}",
        flush=True,
    )
    if ended.returncode:
        print("\n".join(printed.splitlines()[-25:]))
    return ended.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
