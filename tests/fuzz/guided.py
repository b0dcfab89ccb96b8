"""One reader, attacked with inputs that reach new code in it: `python -m tests.fuzz.guided READER SECONDS CORPUS`.

libFuzzer, through Atheris, keeps inputs that reach new code in the folder CORPUS and damages them further, half of the
time with our own kinds of damage. Ends with an error at the first broken promise, and leaves the input in CORPUS.
"""

import sys
import tempfile
from pathlib import Path

import atheris
import numpy as np

from tests.fuzz.mutate import mutate

with atheris.instrument_imports(include=["splat_cli"]):
    from tests.fuzz.attack import MAX_SECONDS, Outcome, attack_once
    from tests.fuzz.readers import TARGETS

_MAX_MIB = 2048


def main() -> None:
    """Run until the time is over; does not return."""
    name, seconds, corpus = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    target = next(target for target in TARGETS if target.name == name)
    folder = Path(tempfile.mkdtemp()) / "input"
    folder.mkdir()
    damaged, outcome = target.prepare(folder), Outcome()
    corpus.mkdir(parents=True, exist_ok=True)
    (corpus / "whole").write_bytes(damaged.read_bytes())

    def attack(content: bytes) -> None:
        damaged.write_bytes(content)
        attack_once(target, folder, outcome, name, len(content))

    def damage(content: bytes, max_size: int, seed: int) -> bytes:
        rng = np.random.default_rng(seed)
        return atheris.Mutate(content, max_size) if rng.random() < 0.5 else mutate(content, rng)[:max_size]

    limits = [
        f"-max_total_time={seconds}",
        f"-timeout={MAX_SECONDS:.0f}",
        f"-rss_limit_mb={_MAX_MIB}",
        "-max_len=65536",
    ]
    atheris.Setup([name, *limits, f"-artifact_prefix={corpus}/", str(corpus)], attack, custom_mutator=damage)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
