"""Findings of `splat check` for whole captures, and for thinned and blurred ones and those without a third of the arc.

`python scripts/checks/spoiled_captures.py SCENE... --too-thin NAME...`: each SCENE is a dataset, or PHOTOS=DATASET
with other poses of the photographs in PHOTOS. Poses only say which photographs are on the third that is left out, and
whether a gap remains. --too-thin: scenes that are too thin without every third photograph, as
docs/experiments/cameras.md defines it.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import ImageFilter

from splat_cli.commands.check import check, directions
from splat_cli.io.image_files import open_image
from splat_cli.scene.coverage import Gap, gaps
from splat_cli.scene.read import read_scene
from splat_cli.scene.view import View

_KINDS = ("whole", "thin", "blurred", "arc")
_NUM_BLURRED, _BLUR = 10, 0.004  # photographs; standard deviation, relative to the longer side


@contextmanager
def _silent(label: str, total: int) -> Iterator[Callable[[int], object]]:
    yield lambda num: None


def without_third(views: list[View]) -> list[View]:
    """Views without those in the middle third of the arc that begins after the largest gap."""
    around = gaps(views)
    after = {gap.first: gap for gap in around}
    angles, gap = dict[str, float](), around[0]
    angle, arc = 0.0, 360 - around[0].degrees
    while gap.second not in angles:
        angles[gap.second] = angle
        gap = after[gap.second]
        angle += gap.degrees
    return [view for view in views if not arc / 3 < angles[view.name] < 2 * arc / 3]


def _capture(
    kind: str, photographs: list[Path], views: list[View], left_out: int, folder: Path
) -> tuple[int, set[str]]:
    """Makes the photographs of a capture in `folder`: their number, and the names of the blurred ones."""
    kept = {Path(view.name).stem for view in without_third(views)} if kind == "arc" else set()
    dice, blurred = np.random.default_rng(0), set()
    if kind == "thin":
        photographs = [path for number, path in enumerate(photographs) if number % 3 != left_out]
    elif kind == "arc":
        photographs = [path for path in photographs if path.stem in kept]
    elif kind == "blurred":
        blurred = {photographs[number].name for number in dice.choice(len(photographs), _NUM_BLURRED, replace=False)}
    for path in photographs:
        if path.name in blurred:
            with open_image(path) as image:
                radius = _BLUR * max(image.size)
                image.convert("RGB").filter(ImageFilter.GaussianBlur(radius)).save(folder / path.name, quality=95)
        else:
            (folder / path.name).symlink_to(path.resolve())
    return len(photographs), blurred


def main() -> None:
    """Prints a row for each capture, and how many findings are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenes", nargs="+")
    parser.add_argument("--too-thin", nargs="*", default=[])
    parser.add_argument("--kinds", nargs="*", default=_KINDS, choices=_KINDS)
    parser.add_argument("--left-out", type=int, default=2, choices=range(3), help="of three photographs, if thinned")
    args = parser.parse_args()
    right = dict.fromkeys(args.kinds, 0)
    for scene in args.scenes:
        photographs, _, dataset = scene.partition("=")
        files = sorted((Path(photographs) / "images").iterdir())
        views = read_scene(Path(dataset or photographs)).views
        for kind in args.kinds:
            right[kind] += _row(kind, Path(photographs).name, files, views, args)
    print("right:", ", ".join(f"{kind} {num} of {len(args.scenes)}" for kind, num in right.items()))


def _row(kind: str, name: str, files: list[Path], views: list[View], args: argparse.Namespace) -> bool:
    """Checks a capture, prints the findings, and returns whether they are right."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        num, blurred = _capture(kind, files, views, args.left_out, Path(folder))
        found = check(Path(folder), 0, _silent).findings
    problems = {one.topic: one for one in found if not one.ok}
    expected = {"whole": False, "blurred": True, "thin": name in args.too_thin, "arc": False}[kind]
    true: list[Gap] = gaps(without_third(views)) if kind == "arc" else []
    if kind == "arc":
        expected = not directions(true).ok
    seen = set(problems) if kind == "whole" else set(problems) & {"overlap", "directions"}
    if kind == "blurred":
        seen = {"blur"} if "blur" in problems and blurred <= set(problems["blur"].photographs) else set()
    is_right = bool(seen) == expected
    texts = [f"{one.topic}: {one.text[:90]}" for one in found if one.topic == "directions" or not one.ok]
    gap = f"; true gap {true[0].degrees:.0f}, {true[1].degrees:.0f}" if true else ""
    verdict = f"{'right' if is_right else 'WRONG'} ({'a' if expected else 'no'} problem{gap})"
    print(f"{name} {kind}, {num}: {verdict} | {' | '.join(texts)} | {time.monotonic() - begin:.0f} s", flush=True)
    return is_right


if __name__ == "__main__":
    main()
