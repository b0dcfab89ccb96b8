"""Batch training: one process per scene; finished runs are skipped, interrupted ones resumed."""

import dataclasses
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splat_cli.commands.batch_list import SUMMARY, BatchScene, refuse_foreign_run
from splat_cli.engine.engine import open_engine
from splat_cli.engine.job import JobResult, train_job
from splat_cli.errors import SplatError
from splat_cli.io.files import make_folder, replacing, require_writable
from splat_cli.run.resume import other_options
from splat_cli.run.setup.training_data import with_fixed_paths
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.terminal.console import Display

_IN_USE = " is in use by "
"""Part of a job's message if another process has locked its run."""


@dataclass(frozen=True)
class SceneResult:
    """Outcome of a scene: "done", "skipped" (already finished) or "failed".

    output: output of `splat train --json`: as result.json, or `error` and `exit_code`.
    """

    name: str
    status: str
    output: dict[str, Any]

    def line(self, width: int) -> str:
        """Row of the summary; failures show the message."""
        head = f"{self.name:<{width}}  {self.status:<7}"
        if self.status == "failed":
            return f"{head}  {self.output['error']}"
        psnr, ssim = self.output.get("psnr"), self.output.get("ssim")
        measures = f"{psnr:6.2f}  {ssim:.4f}" if psnr is not None else "     -       -"
        return f"{head}  {measures}  {self.output['num_splats']:>10,}  {self.output['seconds']:>8.1f}"


def run_batch(
    scenes: Sequence[BatchScene], out: Path, device: str, display: Display, cluster: str | None = None
) -> list[SceneResult]:
    """Train each scene in its own process, one per device at a time; writes OUT/summary.json.

    Output of processes goes to OUT/NAME.log. cluster: Dask cluster, see `open_engine`. After Ctrl-C or SIGTERM,
    raises Interrupted once the running scenes are saved.
    """
    make_folder(out)
    require_writable(out / SUMMARY)
    results: dict[str, SceneResult] = {}

    def add(result: SceneResult) -> None:
        results[result.name] = result
        display.say(result.line(len(result.name)))

    left = {}
    for scene in scenes:
        if before := _result_before(scene):
            add(before)
            if before.status == "skipped" and (options := _other_options(scene)):
                changed = f"{scene.run} was trained with another {', '.join(options)}"
                display.warn(f"{changed}, and is kept: name another -o to train again")
        else:
            left[scene.name] = scene
    if left:
        with open_engine(device, cluster, display.say) as engine:
            for scene in left.values():
                engine.submit(train_job(scene.name, scene.path, scene.run, scene.config, device))
            for ended in engine.results():
                result = _scene_result(left[ended.job.name], ended)
                if _IN_USE in result.output.get("error", ""):  # another batch trains this scene: try again at the end
                    engine.submit(ended.job)
                else:
                    add(result)
    ordered = [results[scene.name] for scene in scenes]
    with replacing(out / SUMMARY) as temporary:
        temporary.write_text(json.dumps([summary(result) for result in ordered], indent=2) + "\n", encoding="utf-8")
    return ordered


def summary(result: SceneResult) -> dict[str, Any]:
    """The outcome as JSON."""
    return {"scene": result.name, "status": result.status, **result.output}


def _result_before(scene: BatchScene) -> SceneResult | None:
    """Outcome if the scene is not trained (finished, damaged, folder of another scene), otherwise None."""
    try:
        refuse_foreign_run(scene)
        finished = RunDir(scene.run).result()
    except SplatError as error:
        return SceneResult(scene.name, "failed", {"error": str(error), "exit_code": error.exit_code})
    is_finished = finished.get("steps", 0) >= (scene.config.steps or 1)
    return SceneResult(scene.name, "skipped", finished) if is_finished else None


def _other_options(scene: BatchScene) -> list[str]:
    """Options that a finished run was given with other values; not those that making a scene of photographs changes."""
    run, names = RunDir(scene.run), ["format", "images", "masks", "invert_masks"]
    if scene.config.steps:
        names.append("steps")  # a longer run is finished, too
    with suppress(SplatError):  # damaged files are told by commands that use them
        read = {name: getattr(run.config(), name) for name in names}
        return other_options(run, with_fixed_paths(dataclasses.replace(scene.config, **read), run.scene_path()))
    return []


def _scene_result(scene: BatchScene, ended: JobResult) -> SceneResult:
    """The outcome of a scene that was trained."""
    output, finished = ended.json_output(), _result_before(scene)
    if output.get("exit_code") == 2 and finished and finished.status == "skipped":
        return SceneResult(scene.name, "done", finished.output)  # a worker finished it before it was lost
    return SceneResult(scene.name, "failed" if "error" in output else "done", output)
