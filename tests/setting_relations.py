"""Checks relations between runs on a tiny scene, for each setting (tests/setting_changes.py), in about a second each.

`python -m tests.setting_relations pairs --beside densify_stop=0 appearance=grid`: each setting still changes
splats, scores, files or messages beside others, or is named as one without effect.
`halves`: a run that is continued from any of its checkpoints ends with the same bits.
`leaks`: noise in held-out photographs, masks and depth maps changes no bit of the splats.
Prints what breaks a relation, and exits with 1 if something does. Not each line of `pairs` is a defect.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from splat_cli.config import SETTINGS
from splat_cli.config.combinations import unused_options
from splat_cli.config.presets import load_config
from splat_cli.errors import SplatError
from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.storage.run_dir import RunDir
from tests import test_settings_take_effect as tiny
from tests.setting_changes import BASE, CHANGES
from tests.training import Trained

_SPECIAL = ("deterministic", "format", "image_memory", "max_memory", "keep", "checkpoint_every")
"""Settings that change bits, or that this scene refuses."""


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("relation", choices=("pairs", "halves", "leaks"))
    parser.add_argument("--settings", nargs="+", default=[name for name in CHANGES if name not in _SPECIAL])
    parser.add_argument("--beside", nargs="+", default=[], metavar="NAME=VALUE", help="other settings of all runs")
    args = parser.parse_args()
    beside = {name: SETTINGS[name].parse(value) for name, _, value in (text.partition("=") for text in args.beside)}
    broken = 0
    with tempfile.TemporaryDirectory() as folder:
        scene = tiny.write_own_scene(Path(folder) / "scene")
        find = {"pairs": _idle, "halves": _other_halves, "leaks": _leaks}[args.relation]
        for line in find(scene, Path(folder), args.settings, beside):
            broken += 1
            print(line, flush=True)
    return int(broken > 0)


def _idle(scene: Path, folder: Path, names: list[str], beside: dict[str, Any]) -> Iterator[str]:
    outcomes = tiny.Outcomes(scene, folder)
    for name in names:
        value, context = CHANGES[name]
        context = {**context, **beside}
        changed = {**context, name: value}
        if name in beside or context.get(name, BASE.get(name, SETTINGS[name].default)) == value:
            continue
        given = {key: tiny.in_scene(one, scene) for key, one in {**BASE, **changed}.items()}
        if not unused_options(load_config(None, given), [name]) and outcomes.of(**context) == outcomes.of(**changed):
            yield f"{SETTINGS[name].option} {value} does nothing"


def _other_halves(scene: Path, folder: Path, names: list[str], beside: dict[str, Any]) -> Iterator[str]:
    for name in names:
        every = 20 if name == "relocate_unseen" else 6
        run, error = _trained(scene, folder / "whole", name, {**beside, "checkpoint_every": every, "keep": 9})
        if run is None:
            print(f"{SETTINGS[name].option} is refused: {error}")
            continue
        for cut in range(1, len(checkpoint_paths(run.checkpoints_path))):
            half = RunDir(Path(shutil.copytree(run.path, folder / "half")))
            half.result_path.unlink()
            for path in checkpoint_paths(half.checkpoints_path)[:cut]:
                path.unlink()
            Trained(scene).resume(half.path)
            if _splats(half) != _splats(run):
                yield f"{SETTINGS[name].option} {CHANGES[name][0]}: other bits without the last {cut} checkpoints"
            shutil.rmtree(half.path)
        shutil.rmtree(run.path)


def _leaks(scene: Path, folder: Path, names: list[str], beside: dict[str, Any]) -> Iterator[str]:
    noisy, random = folder / "noisy", np.random.default_rng(0)
    for name in names:
        run, error = _trained(scene, folder / "plain", name, beside)
        if run is None:
            print(f"{SETTINGS[name].option} is refused: {error}")
            continue
        shutil.copytree(scene, noisy)
        for view in run.views("test"):
            for where in ("images", "others"):
                Image.fromarray(random.integers(0, 256, (30, 40, 3), np.uint8)).save(noisy / where / view.name)
            Image.fromarray(random.integers(0, 2, (30, 40), np.uint8) * 255).save(noisy / f"masks/{view.name}.png")
            depths = random.integers(1000, 9000, (30, 40), np.uint16)
            Image.fromarray(depths).save(noisy / f"depths/{Path(view.name).stem}.png")
        other, _ = _trained(noisy, folder / "other", name, beside)
        if other is None or _splats(other) != _splats(run):
            yield f"{SETTINGS[name].option} {CHANGES[name][0]}: held-out files change the splats"
        for path in (run.path, folder / "other", noisy):
            shutil.rmtree(path)


def _trained(scene: Path, path: Path, name: str, more: dict[str, Any]) -> tuple[RunDir | None, str]:
    """A run with held-out photographs, or why it is refused."""
    value, context = CHANGES[name]
    given = {**BASE, **context, "eval": True, **more, name: value}
    try:
        return Trained(scene).new(path, **{key: tiny.in_scene(one, scene) for key, one in given.items()}), ""
    except SplatError as error:
        return None, str(error)


def _splats(run: RunDir) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in run.path.rglob("point_cloud.ply")}


if __name__ == "__main__":
    sys.exit(main())
