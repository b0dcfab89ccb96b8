"""Mutation check: change one thing in a module, and see whether its tests notice.

Of each module a random choice of mutants is made, in a copy of the repository, and tested by the files of TESTS alone:

    python scripts/checks/mutate.py                        # all of TESTS, 15 mutants a module
    python scripts/checks/mutate.py density/adc --count 40
    python scripts/checks/mutate.py --seed 1 --out mutants.json

A mutant is killed where a test fails or takes several times as long as before. Survivors are listed: each is a test
that is missing, or a change that changes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from mutants import mutants_of

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("splat_cli", "cuda_src", "configs", "scripts", "tests", "docs", "pyproject.toml")

TESTS = {
    "density/__init__": ["density/test_strategies.py"],
    "density/adc": ["density/test_adc.py", "density/test_strategies.py"],
    "density/mcmc": ["density/test_relocation.py", "density/test_strategies.py", "density/test_adc.py"],
    "density/operations": ["density"],
    "density/ratings": ["density"],
    "density/sampling": ["density"],
    "eval/embedding_fit": ["run/test_color_field.py"],
    "eval/evaluate": ["eval", "cli/test_eval.py"],
    "eval/metrics": ["eval"],
    "joint/appearance/bilateral_grid": ["joint/appearance"],
    "joint/appearance/camera_response": ["joint/appearance"],
    "joint/appearance/exposure": ["train/test_enabled_models.py", "joint/appearance", "run/setup/test_memory_plan.py"],
    "joint/appearance/isp": ["joint/appearance", "run/setup/test_memory_plan.py"],
    "joint/background": ["train/test_enabled_models.py", "joint/test_background.py"],
    "joint/depth/depth_maps": ["joint/depth", "run/test_depth_maps.py"],
    "joint/depth/free_space": ["joint/depth"],
    "joint/depth/sparse_depth": ["joint/depth", "run/setup/test_memory_plan.py"],
    "joint/intrinsics": ["joint/test_intrinsics.py", "train/test_joint_models.py"],
    "joint/loss": ["joint/test_loss.py", "joint/test_outliers.py", "run/setup/test_memory_plan.py"],
    "joint/outliers": ["joint/test_outliers.py"],
    "joint/per_view": ["joint/appearance", "joint/test_poses.py"],
    "joint/poses": ["train/test_enabled_models.py", "joint/test_poses.py"],
    "model/columns": ["model/test_columns.py", "model/test_model.py"],
    "model/model": ["model/test_model.py", "model/test_adam.py", "run/setup/test_memory_plan.py"],
    "model/noise": ["train/test_units.py"],
    "model/smooth_3d": ["render/test_smooth_3d.py"],
    "run/plan": ["run/test_plan.py"],
}
"""Modules of splat_cli/, and the files or folders of tests/ that are to kill their mutants."""


class Copy:
    """A copy of the repository, in which mutants are tested."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder / name)

    def run(self, tests: list[str], timeout: float | None = None) -> tuple[bool, float]:
        """Whether the tests pass, and seconds; a run that takes longer than `timeout` does not."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header"]
        command += [f"tests/{test}" for test in tests]
        others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != str(ROOT)]
        path = os.pathsep.join([str(self.folder), *others])  # packages may lie elsewhere than this interpreter's
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        began = time.perf_counter()
        try:
            result = subprocess.run(
                command, cwd=self.folder, env=environment, timeout=timeout, capture_output=True, check=False
            )
        except subprocess.TimeoutExpired:
            return False, time.perf_counter() - began
        return result.returncode == 0, time.perf_counter() - began


def check(copy_: Copy, module: str, count: int, seed: int) -> list[dict[str, object]]:
    """Test up to `count` mutants of a module; prints and returns a row for each, with `killed`."""
    path = Path("splat_cli", f"{module}.py")
    original = (copy_.folder / path).read_text(encoding="utf-8")
    mutants = mutants_of(original)
    chosen = random.Random(f"{module} {seed}").sample(mutants, min(count, len(mutants)))
    passed, seconds = copy_.run(TESTS[module])
    if not passed:
        raise SystemExit(f"the tests of {module} fail without any mutant: {' '.join(TESTS[module])}")
    rows: list[dict[str, object]] = []
    for mutant in sorted(chosen, key=lambda one: one.line):
        (copy_.folder / path).write_text(mutant.source, encoding="utf-8")
        survived, _ = copy_.run(TESTS[module], timeout=5 * seconds + 20)
        fields = {key: value for key, value in asdict(mutant).items() if key != "source"}
        rows.append({"module": module, **fields, "killed": not survived})
        if survived:
            print(f"    survived {path}:{mutant.line}: {mutant.before}  ->  {mutant.after}", flush=True)
    (copy_.folder / path).write_text(original, encoding="utf-8")
    killed = sum(bool(row["killed"]) for row in rows)
    print(f"{module}: {killed} of {len(rows)} killed, of {len(mutants)} mutants ({seconds:.0f} s a run)", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help=f"of {', '.join(TESTS)}; by default all")
    parser.add_argument("--count", type=int, default=15, help="mutants a module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file of all mutants that were tested")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        copy_ = Copy(Path(folder))
        for module in options.modules or TESTS:
            rows += check(copy_, module, options.count, options.seed)
            if options.out:
                options.out.write_text(json.dumps(rows, indent=1))
    killed = sum(bool(row["killed"]) for row in rows)
    print(f"{killed} of {len(rows)} mutants killed ({100 * killed / max(len(rows), 1):.0f} %)")


if __name__ == "__main__":
    main()
