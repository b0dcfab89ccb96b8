"""Mutation check: change one line of a file, run its tests, and list the changes that no test notices.

Each file gets a random choice of mutants in a copy of the repository. Only the tests listed for it run. Kernels are
compiled by the CPU backend, or on a GPU, which takes less time:

    python scripts/checks/mutate.py                          # all files, 15 mutants each
    python scripts/checks/mutate.py density/adc --count 40
    python scripts/checks/mutate.py raster/tiles.cu optim/begin_step.cu
    python scripts/checks/mutate.py --seed 1 --out mutants.json
    python scripts/checks/mutate.py raster/project.cu --device cuda --jobs 24

A mutant is killed if a test fails or takes several times as long as before; `--out` names that test. Each survivor is a
missing test, or a change without an effect. Mutants that cannot be compiled or imported do not count. Code that only
GPUs run has none. Before and after the mutants of a file, its tests must pass on the original: otherwise a full disk or
a test that always fails would kill all of them.

Known mutants without an effect: thresholds that no float equals (langevin_noise.cuh); choices between sorts of the same
result (sort_tiles.cu); one more group or segment without splats (free_space.cu, blend.cu, blend_backward.cu); shortcuts
such as `if (!any(hit.on)) continue`, which only save time; reads past an array, which may find 0.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePath

from kernel_mutants import kernel_mutants_of
from mutants import Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("splat_cli", "cuda_src", "configs", "scripts", "tests", "docs", "pyproject.toml")

TESTS = {
    "commands/check": ["commands/test_check.py"],
    "commands/compare": ["cli/test_compare.py"],
    "commands/photo_checks": ["commands/test_check.py"],
    "density/__init__": ["density/test_strategies.py"],
    "density/adc": ["density/test_adc.py", "density/test_strategies.py"],
    "density/mcmc": ["density/test_relocation.py", "density/test_strategies.py", "density/test_adc.py"],
    "density/operations": ["density"],
    "density/ratings": ["density"],
    "eval/cleaning": ["eval/test_cleaning.py", "eval/test_isolation.py"],
    "eval/held_out_fit": ["run/test_color_field.py", "eval/test_pose_scores.py"],
    "eval/evaluate": ["eval", "cli/test_eval.py"],
    "eval/metrics": ["eval"],
    "gaussians/formats/compressed_ply": ["gaussians/formats"],
    "gaussians/formats/dot_splat": ["gaussians/formats"],
    "gaussians/formats/gltf": ["gaussians/formats"],
    "gaussians/formats/quantize": ["gaussians/formats"],
    "gaussians/formats/sog": ["gaussians/formats/test_sog.py", "gaussians/formats"],
    "gaussians/formats/spz": ["gaussians/formats/test_spz.py", "gaussians/formats"],
    "gaussians/ply": ["gaussians/test_ply.py", "gaussians/test_ply_damage.py", "gaussians/formats"],
    "joint/appearance/bilateral_grid": ["joint/appearance"],
    "joint/appearance/camera_response": ["joint/appearance"],
    "joint/appearance/exposure": ["train/test_enabled_models.py", "joint/appearance", "run/setup/test_memory_plan.py"],
    "joint/appearance/isp": ["joint/appearance", "run/setup/test_memory_plan.py"],
    "joint/background": ["train/test_enabled_models.py", "joint/test_background.py"],
    "joint/depth/free_space": ["joint/depth"],
    "joint/depth/supervision": ["joint/depth", "run/test_depth_maps.py", "run/setup/test_memory_plan.py"],
    "joint/intrinsics": ["joint/test_intrinsics.py", "train/test_joint_models.py"],
    "joint/loss": ["joint/test_loss.py", "joint/test_outliers.py", "run/setup/test_memory_plan.py"],
    "joint/outliers": ["joint/test_outliers.py"],
    "joint/poses": ["train/test_enabled_models.py", "joint/test_poses.py"],
    "model/columns": ["model/test_columns.py", "model/test_model.py"],
    "model/model": ["model/test_model.py", "model/test_adam.py", "run/setup/test_memory_plan.py"],
    "run/plan": ["run/test_plan.py"],
    "run/resume": ["run/test_interrupted_run.py", "run/test_refused_resume.py", "run/test_resume.py"],
    "run/setup/trials": ["run/setup/test_trials.py"],
    "run/storage/inputs": ["run/storage/test_inputs.py", "run/test_refused_resume.py", "run/test_bad_sources.py"],
    "scene/plausibility": ["scene/test_plausibility.py"],
    "scene/sfm/mapping": ["scene/sfm"],
    "scene/read": ["scene/test_read.py", "scene/test_scene_inputs.py", "scene/test_plausibility.py"],
    "scene/readers/transforms": ["scene/test_transforms.py", "scene/test_wrong_transforms.py"],
    "scene/split": ["scene/test_split_and_extent.py"],
}
"""Modules of splat_cli/, and the files or folders of tests/ that must kill their mutants."""

PROJECTION = [
    "render/test_project.py", "render/test_lens.py", "render/test_pipeline.py", "render/test_dropout.py",
    "render/test_smooth_3d.py", "render/test_nonfinite_splats.py", "model", "train/test_batch.py",
    "train/test_frozen.py", "train/test_unseen.py", "train/test_nonfinite.py", "train/test_units.py",
    "joint/depth/test_supervision.py",
]  # fmt: skip

KERNEL_TESTS = {
    "density/shares.cu": ["ranks"],
    "density/unseen.cu": ["train/test_unseen.py", "density"],
    "density/columns.cu": ["model/test_columns.py", "density/test_relocation.py"],
    "density/ratings.cu": ["density/test_ratings.py", "density/test_adc.py"],
    "density/refine.cu": ["density/test_operations.py", "density/test_relocation.py", "density/test_adc.py"],
    "density/sampling.cu": ["density/test_sampling.py"],
    "optim/begin_step.cu": ["model/test_begin_step.py", "train", "ranks/test_ranks.py", "density"],
    "optim/langevin_noise.cuh": ["model/test_langevin_noise.py", "train/test_units.py"],
    "optim/*adam.cuh": ["model", "train/test_units.py"],
    "optim/moments.cuh": ["model"],
    "optim/l1_ssim.cu": ["joint/test_loss.py"],
    "optim/ssim_window.cuh": ["joint/test_loss.py"],
    "optim/*background.cu": ["joint/test_background.py"],
    "optim/*bilateral_grid.cu*": ["joint/appearance/test_bilateral_grid.py"],
    "optim/*exposure.cu": ["joint/appearance/test_exposure.py"],
    "optim/*isp.cu*": ["joint/appearance/test_isp.py"],
    "optim/per_view.cuh": ["joint/appearance", "joint/test_poses.py"],
    "optim/depth*": ["joint/depth"],
    "optim/free_space.cu": ["joint/depth/test_free_space.py"],
    "optim/intrinsics.cu": ["joint/test_intrinsics.py"],
    "optim/outliers.cu": ["joint/test_outliers.py"],
    "optim/pose.cu*": ["joint/test_poses.py"],
    "optim/smooth_3d.cu": ["render/test_smooth_3d.py"],
    "raster/*sort*": ["render/test_sort.py", "render/test_tiles.py"],
    "raster/tile*": ["render/test_tiles.py", "render/test_pipeline.py"],
    "raster/blend_scores.cu": ["render/test_contribution.py", "render/test_fixed_sums.py", "density/test_ratings.py"],
    "raster/blend*": [
        "render/test_blend.py",
        "render/test_depth_fusion.py",
        "render/test_pipeline.py",
        "render/test_fixed_sums.py",
    ],
    "raster/unscented*": ["render/test_lens.py"],
    "raster/project_share.cu": ["ranks/test_exchange.py", "ranks/test_messages.py", "ranks/test_ranks.py"],
    "raster/*_backward.cu*": PROJECTION,
    "raster/project*": PROJECTION,
    "raster/exchange.cu": ["ranks/test_exchange.py", "ranks/test_ranks.py"],
    "raster/receive_splats.cu": ["ranks/test_messages.py", "ranks/test_ranks.py"],
    "raster/*": ["render", "model"],
}
"""Patterns of files in cuda_src/, and their tests. The first pattern that matches counts."""

KERNELS = sorted(
    path.relative_to(ROOT / "cuda_src").as_posix()
    for folder in ("density", "optim", "raster")
    for path in (ROOT / "cuda_src" / folder).iterdir()
)


def source_path(name: str) -> Path:
    """Path of a module or kernel file, relative to the repository."""
    return Path("cuda_src", name) if name in KERNELS else Path("splat_cli", f"{name}.py")


def relevant_tests(name: str) -> list[str]:
    """Files or folders of tests/ that must kill the mutants of a module or kernel file."""
    if name in KERNELS:
        return next(tests for pattern, tests in KERNEL_TESTS.items() if PurePath(name).match(pattern))
    return TESTS[name]


PASSED, FAILED, NOT_RUN = "passed", "failed", "no test ran"


@dataclass(frozen=True)
class Outcome:
    """How a run of tests ended, the evidence for it, and its duration in seconds."""

    kind: str
    evidence: str
    seconds: float = 0.0


def outcome_of(returncode: int, output: str) -> Outcome:
    """Outcome of a run of pytest. Evidence: how many tests passed, or which one failed.

    No test ran if the code cannot be compiled or imported, if pytest did not start, or if all tests were skipped. With
    several files of tests, pytest returns 1 for a failed import, too, but then names only the file.
    """
    passed = re.search(r"\d+ passed", output)
    if returncode == 0 and passed:
        return Outcome(PASSED, passed[0])
    if returncode < 0:
        return Outcome(FAILED, f"signal {-returncode}")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", output, re.MULTILINE)
    if returncode == 1 and failed and "cannot compile" not in output:
        return Outcome(FAILED, failed[1])
    return Outcome(NOT_RUN, output[-300:])


class Copy:
    """A copy of the repository, in which one mutant at a time is tested. device: "cpu" or "cuda"."""

    def __init__(self, folder: Path, device: str) -> None:
        self.folder, self.device = folder, device
        folder.mkdir()
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder / name)

    def run(self, tests: list[str], timeout: float | None = None) -> Outcome:
        """Run the tests on the files of this copy; a run longer than `timeout` seconds fails."""
        command = [sys.executable, "-m", "pytest", "-x", "-n", "0", "-p", "no:cacheprovider", "--no-header"]
        command += [f"tests/{test}" for test in tests] + (["-k", "cuda"] if self.device == "cuda" else [])
        others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != str(ROOT)]
        path = os.pathsep.join([str(self.folder), *others])  # packages may be outside this interpreter's folders
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        environment["XDG_CACHE_HOME"] = str(self.folder / "cache")  # compiled mutants are deleted with the copy
        environment["CUPY_CACHE_DIR"] = str(self.folder / "cache")
        began = time.perf_counter()
        try:
            result = subprocess.run(
                command, cwd=self.folder, env=environment, timeout=timeout, capture_output=True, check=False, text=True
            )
        except subprocess.TimeoutExpired:
            return Outcome(FAILED, "timeout", time.perf_counter() - began)
        outcome = outcome_of(result.returncode, result.stdout)
        return dataclasses.replace(outcome, seconds=time.perf_counter() - began)

    def test(self, path: Path, mutant: Mutant, tests: list[str], timeout: float) -> Outcome:
        """Outcome of the tests of the file at `path` with this mutant; the file is restored."""
        original = (self.folder / path).read_text(encoding="utf-8")
        (self.folder / path).write_text(mutant.source, encoding="utf-8")
        outcome = self.run(tests, timeout)
        (self.folder / path).write_text(original, encoding="utf-8")
        return outcome

    def control(self, tests: list[str]) -> Outcome:
        """Outcome of the tests without any mutant; ends the program if they do not pass."""
        outcome = self.run(tests)
        if outcome.kind != PASSED:
            raise SystemExit(f"no pass without any mutant: {' '.join(tests)}: {outcome.kind}: {outcome.evidence}")
        return outcome


def check(copies: Sequence[Copy], name: str, count: int, seed: int) -> list[dict[str, object]]:
    """Test up to `count` mutants of a file; prints and returns a row for each whose tests ran, with `killed`."""
    path, tests = source_path(name), relevant_tests(name)
    original = (ROOT / path).read_text(encoding="utf-8")
    mutants = kernel_mutants_of(original) if name in KERNELS else mutants_of(original)
    chosen = random.Random(f"{name} {seed}").sample(mutants, min(count, len(mutants)))
    copies[0].run(tests)  # compiles kernels, which is not timed
    before = copies[0].control(tests)
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy_ in copies:
        free.put(copy_)

    def test(mutant: Mutant) -> list[dict[str, object]]:
        copy_ = free.get()
        outcome = copy_.test(path, mutant, tests, timeout=5 * before.seconds + 60)
        free.put(copy_)
        return [] if outcome.kind == NOT_RUN else [_row(name, path, mutant, outcome)]

    with ThreadPoolExecutor(len(copies)) as pool:
        rows = [row for found in pool.map(test, sorted(chosen, key=lambda one: one.line)) for row in found]
        list(pool.map(lambda copy_: copy_.control(tests), copies))
    killed = sum(bool(row["killed"]) for row in rows)
    print(
        f"{name}: {killed} of {len(rows)} killed, of {len(mutants)} mutants; without any {before.evidence} in "
        f"{before.seconds:.0f} s",
        flush=True,
    )
    return rows


def _row(name: str, path: Path, mutant: Mutant, outcome: Outcome) -> dict[str, object]:
    """A row of the JSON file; prints a mutant that survived."""
    killed = outcome.kind == FAILED
    if not killed:
        print(f"    survived {path}:{mutant.line}: {mutant.before}  ->  {mutant.after}", flush=True)
    fields = {key: value for key, value in dataclasses.asdict(mutant).items() if key != "source"}
    return {"file": name, **fields, "killed": killed, "evidence": outcome.evidence}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="modules and kernel files, by default all", metavar="FILE")
    parser.add_argument("--count", type=int, default=15, help="mutants per file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="mutants tested at the same time")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="which compiles kernels")
    parser.add_argument("--out", type=Path, help="JSON file of all tested mutants")
    options = parser.parse_args()
    if unknown := set(options.files) - {*TESTS, *KERNELS}:
        parser.error(f"no such file: {', '.join(sorted(unknown))}; choose from {', '.join([*TESTS, *KERNELS])}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        copies = [Copy(Path(folder, str(job)), options.device) for job in range(options.jobs)]
        for name in options.files or [*TESTS, *KERNELS]:
            rows += check(copies, name, options.count, options.seed)
            if options.out:
                options.out.write_text(json.dumps(rows, indent=1))
    killed = sum(bool(row["killed"]) for row in rows)
    print(f"{killed} of {len(rows)} mutants killed ({100 * killed / max(len(rows), 1):.0f} %)")


if __name__ == "__main__":
    main()
