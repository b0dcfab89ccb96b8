"""Batch training: one process per scene; finished runs are skipped, interrupted ones resumed."""

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splat_cli.commands.photo_scene import is_scene_of
from splat_cli.config import TrainConfig
from splat_cli.config.presets import load_config, read_toml, requested_settings, with_underscores
from splat_cli.engine import open_engine
from splat_cli.engine.job import JobResult, train_job
from splat_cli.errors import SplatError, UsageError
from splat_cli.io.files import make_folder, replacing, require_writable
from splat_cli.run.ranks import check_settings
from splat_cli.run.resume import other_options
from splat_cli.run.setup.training_data import warn_of_unused, with_fixed_paths
from splat_cli.run.storage.find_run import is_run, refuse_inside_run
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.dataset import placed_paths
from splat_cli.scene.formats import has_dataset
from splat_cli.terminal.console import Display

SUMMARY = "summary.json"
_MAX_NAME_BYTES = 200


@dataclass(frozen=True)
class BatchScene:
    """A scene: name, path, folder of the run, settings."""

    name: str
    path: Path
    run: Path
    config: TrainConfig


def plan_batch(sources: Sequence[Path], out: Path, preset: str | None, options: dict[str, Any]) -> list[BatchScene]:
    """The scenes of folders and .toml lists. Precedence: options, scene, list, preset.

    UsageError if a list is unreadable, settings are wrong, or names are duplicates or invalid as folder names.
    """
    refuse_inside_run(out / "NAME")
    scenes: dict[str, BatchScene] = {}
    for source in sources:
        for name, path, settings in _entries(source):
            if not _is_folder_name(name):
                raise UsageError(
                    f"{source}: {name[:80]!a} is not a valid name of a run's folder: no slashes, at most 200 bytes"
                )
            if other := scenes.get(os.path.normcase(name)):  # on Windows, names that differ in case are the same
                raise UsageError(_why_both(other, path))
            try:
                config = load_config(preset, {**settings, **options})
                check_settings(config)
            except UsageError as error:
                raise UsageError(f"{source}: {error}" if settings else str(error)) from None
            scenes[os.path.normcase(name)] = BatchScene(name, path, out / name, config)
    _check_folders(list(scenes.values()))
    return list(scenes.values())


def refuse_foreign_run(scene: BatchScene) -> None:
    """UsageError if the run's folder belongs to another scene that still exists."""
    if not is_run(scene.run):
        return
    recorded = RunDir(scene.run).scene_path().resolve()
    if has_dataset(recorded) and not is_scene_of(recorded, scene.path, scene.config):  # otherwise the scene was moved
        raise UsageError(
            f"{scene.run} is a run of {recorded}, not of {scene.path}: name another -o, or the scene in a .toml list"
        )


def _why_both(scene: BatchScene, path: Path) -> str:
    """Message for two scenes with the same name."""
    if scene.path.resolve() == path.resolve():
        return f"{path} is given twice: give it once, or two names in a .toml list"
    return f"{scene.path} and {path} are both called {scene.name!r}: name them in a .toml list"


def _check_folders(scenes: Sequence[BatchScene]) -> None:
    """UsageError if the folder of a run is its scene, or the path of another file of the batch."""
    logs = {f"{scene.name}.log" for scene in scenes}
    for scene in scenes:
        if scene.run.resolve() == scene.path.resolve():
            raise UsageError(f"{scene.run} is the scene itself: name another -o for its run")
        if scene.name in (SUMMARY, *logs):
            raise UsageError(f"{scene.name!r} is a file of the batch: give the scene another name in a .toml list")


def _is_folder_name(name: str) -> bool:
    """Whether OUT/`name` is a direct child of OUT, with room for a suffix."""
    fits = len(os.fsencode(name)) <= _MAX_NAME_BYTES
    return fits and name not in ("", ".", "..") and not {"/", "\0"} & set(name)


def _entries(source: Path) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """(name, scene, settings); paths in a list are relative to it."""
    if source.suffix != ".toml":
        yield source.resolve().name, source, {}
        return
    common = read_toml(source)
    tables = common.pop("scene", [])
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{source} lists no scenes: write a table [[scene]] with a path for each")
    for number, table in enumerate(tables, 1):
        own = dict(table)
        path, name = own.pop("path", None), own.pop("name", None)
        if not isinstance(path, str) or not isinstance(name, str | None):
            raise UsageError(f"{source}: [[scene]] number {number} needs a path; path and name must be strings")
        settings = {**with_underscores(common), **with_underscores(own)}
        if any(isinstance(value, str) and "\0" in value for value in (path, *settings.values())):
            raise UsageError(f"{source}: [[scene]] number {number} has a string with a null character: remove it")
        scene = source.parent / path
        yield name or scene.resolve().name, scene, settings | placed_paths(settings, source.parent, scene)


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
    scenes: Sequence[BatchScene], out: Path, device: str, display: Display, cluster: str | None
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
        warn_of_unused(scene.config, requested_settings(scene.config), display, scene.name)
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
    """Options with other values in a finished run, except those that change when a scene is made of photographs."""
    run, names = RunDir(scene.run), ["format", "images", "masks", "invert_masks"]
    if scene.config.steps:
        names.append("steps")  # a longer run is finished, too
    with suppress(SplatError):  # commands that use damaged files report them
        read = {name: getattr(run.config(), name) for name in names}
        return other_options(run, with_fixed_paths(dataclasses.replace(scene.config, **read), run.scene_path()))
    return []


def _scene_result(scene: BatchScene, ended: JobResult) -> SceneResult:
    """The outcome of a scene that was trained."""
    output, finished = ended.json_output(), _result_before(scene)
    if output.get("exit_code") == 2 and finished and finished.status == "skipped":
        return SceneResult(scene.name, "done", finished.output)  # a worker finished it before it was lost
    return SceneResult(scene.name, "failed" if "error" in output else "done", output)
