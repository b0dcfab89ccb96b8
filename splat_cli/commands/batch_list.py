"""The scenes of a batch, with their settings and output folders."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splat_cli.commands.photo_scene import is_scene_of
from splat_cli.config import TrainConfig
from splat_cli.config.presets import load_config, read_toml, with_underscores
from splat_cli.errors import UsageError
from splat_cli.run.ranks import check_settings
from splat_cli.run.storage.find_run import is_run, refuse_inside_run
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.formats import has_dataset
from splat_cli.scene.options import placed_paths

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
            raise UsageError(f"{source}: [[scene]] number {number} needs a path; path and name are texts")
        settings = {**with_underscores(common), **with_underscores(own)}
        if any(isinstance(value, str) and "\0" in value for value in (path, *settings.values())):
            raise UsageError(f"{source}: [[scene]] number {number} has a text with a null character: remove it")
        scene = source.parent / path
        yield name or scene.resolve().name, scene, settings | placed_paths(settings, source.parent, scene)
