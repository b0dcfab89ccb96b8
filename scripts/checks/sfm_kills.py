"""Kills `splat sfm` before and amid each of its stages, and compares the poses of the next call with a whole run's.

`python scripts/checks/sfm_kills.py PHOTOS --side 360`: copies of the photographs, with sides of at most 360 pixels.
The program is killed (SIGKILL), or COLMAP's process crashes (SIGSEGV). Each stage is killed four times, the first time
as it begins; the other kills begin with the folder that this one has left. Exits with 1 if a file of a model differs.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from splat_cli.io.image_files import open_image

_PROGRAM = """
import json, os, signal, sys
import psutil
from splat_cli.cli.main import main
from splat_cli.scene.sfm.colmap_process import _Progress

victim, stage, share = sys.argv.pop(), int(sys.argv.pop()), float(sys.argv.pop())
stages, message, set_done = [], _Progress.message, _Progress._set_done

def end_if(due):
    if due and victim == "program":
        os.kill(os.getpid(), signal.SIGKILL)
    elif due:
        for child in psutil.Process().children():
            child.send_signal(signal.SIGSEGV)

def note(self, content):
    if "phase" in content or "models" in content:
        stages.append(content.get("phase", "written"))
        print("STAGE", stages[-1], flush=True)
    message(self, content)
    end_if(len(stages) - 1 == stage and not share)

def count(self, done):
    set_done(self, done)
    end_if(len(stages) - 1 == stage and share and self._done >= share * self._total)

_Progress.message, _Progress._set_done = note, count
main()
"""


@dataclass(frozen=True)
class Kill:
    """stage: its number, -1 for none. share: of the stage that is done. victim: "program" or "colmap"."""

    stage: int = -1
    share: float = 0.0
    victim: str = "program"


def run(photographs: Path, scene: Path, kill: Kill) -> tuple[list[str], int]:
    """Stages that `splat sfm` began, and its exit code."""
    arguments = ["sfm", str(photographs), "-o", str(scene), str(kill.share), str(kill.stage), kill.victim]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    lines = done.stdout.splitlines()
    return [line.removeprefix("STAGE ") for line in lines if line.startswith("STAGE ")], done.returncode


def models(scene: Path) -> dict[str, bytes]:
    """Files of the models, and the list of photographs without a pose."""
    files = [*scene.glob("sparse/*/*"), *scene.glob("unregistered.txt")]
    return {str(path.relative_to(scene)): path.read_bytes() for path in sorted(files)}


def main() -> None:
    """Prints a line for each kill."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photographs", type=Path)
    parser.add_argument("--side", type=int, default=440, help="longer side of the copies, in pixels")
    parser.add_argument("--first", help="stage to begin with, such as placed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        photographs = Path(folder) / "photographs"
        _copies(args.photographs, photographs, args.side)
        sys.exit(int(_test(Path(folder), photographs, args.first) > 0))


def _copies(source: Path, target: Path, side: int) -> None:
    target.mkdir()
    for path in sorted(source.iterdir()):
        image = open_image(path).convert("RGB")
        image.thumbnail((side, side))
        image.save(target / f"{path.stem}.jpg", quality=95)


def _test(folder: Path, photographs: Path, first: str | None) -> int:
    """Number of kills after which a model differs."""
    begin = time.monotonic()
    stages, _ = run(photographs, folder / "whole", Kill())
    expected = models(folder / "whole")
    print(f"whole: {', '.join(stages)}; {len(expected)} files, {time.monotonic() - begin:.0f} s", flush=True)
    before, wrong = folder / "before", 0
    before.mkdir()
    for stage, name in list(enumerate(stages))[stages.index(first) if first else 0 :]:
        begin_of_stage = Kill(stage)
        for kill in [Kill(stage, share, victim) for share in (0.0, 0.5) for victim in ("program", "colmap")]:
            if name == "written" and kill != begin_of_stage:
                continue
            scene = folder / "killed"
            shutil.copytree(before, scene)
            code = run(photographs, scene, kill)[1]
            if kill == begin_of_stage:
                shutil.rmtree(before)
                shutil.copytree(scene, before)
            again, _ = run(photographs, scene, Kill())
            is_same = models(scene) == expected and code != 0
            wrong += not is_same
            when = f"{'amid' if kill.share else 'before'} {name} ({kill.victim}, exit code {code})"
            print(f"{when}: {'same' if is_same else 'OTHER'} files; again {', '.join(again)}", flush=True)
            shutil.rmtree(scene)
    print(f"{wrong} differ; {time.monotonic() - begin:.0f} s")
    return wrong


if __name__ == "__main__":
    main()
