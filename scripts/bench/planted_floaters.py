"""How many planted floaters `splat clean` finds in a run, and how many other splats go with them.

  python scripts/bench/planted_floaters.py splat-demo/run --device cpu

Floaters are copies of the run's splats of more than 10 % opacity, moved into free space: onto the ray from a training
camera to a point that it sees, at 20 to 75 % of the distance. Prints the share of floaters that go, and the share of
the others that go only because of the floaters, by reason.
"""

import argparse
import dataclasses
from pathlib import Path

import numpy as np

from splat_cli.commands.clean import find_reasons
from splat_cli.device import open_backend
from splat_cli.eval.cleaning import Reason
from splat_cli.gaussians.arrays import SplatArrays, opacities
from splat_cli.gaussians.editing.edits import merged
from splat_cli.run.storage.load_run import load_trained_splats, read_run_scene
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.points.observations import observe
from splat_cli.terminal.console import Display, Level


def planted(splats: SplatArrays, run: RunDir, count: int, seed: int) -> SplatArrays:
    """Floaters, as described above."""
    rng, views = np.random.default_rng(seed), run.views("train")
    seen = observe(views, read_run_scene(run, None).points)
    means = np.empty((count, 3), np.float32)
    for number, k in enumerate(rng.integers(0, len(seen.pixels), count)):
        view = views[np.searchsorted(seen.begins, k, side="right") - 1]
        row, column = divmod(int(seen.pixels[k]), view.width)
        slopes = (column + 0.5 - view.cx) / view.fx, (row + 0.5 - view.cy) / view.fy, 1.0
        placed = np.array(slopes) / seen.inverse_depths[k] * rng.uniform(0.2, 0.75)
        means[number] = view.w2c[:3, :3].T @ (placed - view.w2c[:3, 3])
    copied = splats.select(rng.choice(np.flatnonzero(opacities(splats) > 0.1), count))
    return dataclasses.replace(copied, means=means)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    splats, run = load_trained_splats(options.run)
    assert run is not None
    backend, display = open_backend(options.device), Display(level=Level.QUIET)
    both = merged([splats, planted(splats, run, options.count, options.seed)])
    before, after = (find_reasons(some, run, 1.0, None, backend, display) for some in (splats, both))
    num, gone = len(splats), before != Reason.NONE
    print(f"{(after[num:] != Reason.NONE).mean():.2%} of {options.count:,} floaters go")
    print(f"of {num:,} other splats, {gone.mean():.1%} go without floaters, and with them also:")
    for reason in Reason:
        if reason != Reason.NONE:
            print(f"  {reason.name.lower():9} {(~gone & (after[:num] == reason)).mean():.3%}")


if __name__ == "__main__":
    main()
