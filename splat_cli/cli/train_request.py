"""Chooses the run that `splat train` trains: a new one, an interrupted one, or the one given by --resume."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splat_cli.commands.photo_scene import prepared_scene
from splat_cli.config.presets import load_config
from splat_cli.errors import UsageError, quoted
from splat_cli.run.resume import FinishedError, Resumption, interrupted_run, plan_resumption
from splat_cli.run.setup.training_data import warn_of_unused
from splat_cli.run.storage.find_run import locked_run, new_locked_run, numbered_folders, unused_folder
from splat_cli.run.storage.result import RunSummary
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.formats import scene_folder
from splat_cli.scene.sfm import Placed
from splat_cli.terminal.console import Display
from splat_cli.terminal.phase_timer import PhaseTimer

LockedRun = tuple[RunDir, Resumption | None]
"""Folder of a run, and what to resume: None if only the report is missing."""


@dataclass(frozen=True)
class TrainRequest:
    """A new run on `scene` with `preset`, in `out` if given; or the run `resume`. changes: settings from options."""

    scene: Path | None
    out: Path | None
    resume: Path | None
    preset: str | None
    changes: dict[str, Any]

    @contextmanager
    def run(
        self, display: Display, timer: PhaseTimer, watch: Callable[[Placed], None] | None = None
    ) -> Iterator[LockedRun]:
        """Context with the run, locked for this process. watch: see `make_scene`. Raises UsageError."""
        self._check()
        if self.resume:
            yield from self._resumed_run(self.resume, display)
        elif self.scene:
            yield from self._new_run(self.scene, display, timer, watch)

    def train_on_cluster(self, cluster: str, device: str, viewer: bool, display: Display) -> RunSummary:
        """Train the run on the workers of a Dask cluster, which lock its folder. Raises UsageError."""
        from splat_cli.commands.cluster_training import new_run_on_cluster, resumed_run_on_cluster

        if viewer:
            raise UsageError("--viewer does not work with --cluster: leave out one of them")
        self._check()
        if self.resume:
            return resumed_run_on_cluster(self.resume, self.scene, self.changes, cluster, device, display)
        assert self.scene is not None
        config, out = load_config(self.preset, self.changes), self._new_folder(self.scene)
        warn_of_unused(config, self.changes, display)
        return new_run_on_cluster(self.scene, out, config, cluster, device, display)

    def _check(self) -> None:
        if self.resume and (self.out or self.preset):
            raise UsageError("--resume keeps the run's folder and settings: leave out --out and --preset")
        if not (self.resume or self.scene):
            raise UsageError("name a SCENE to train on, or a run with --resume")

    def _new_folder(self, scene: Path) -> Path:
        """--out, or the first unused folder of runs/NAME, runs/NAME-2, ..."""
        return self.out or unused_folder(_default_folder(scene))

    def _resumed_run(self, path: Path, display: Display) -> Iterator[LockedRun]:
        with locked_run(path) as run:
            start: Resumption | None = None
            try:
                start = plan_resumption(run, self.scene, self.changes, display)
            except FinishedError:
                if self.changes or run.report_path.is_file() or not run.config().report:
                    raise
            yield run, start

    def _new_run(
        self, scene: Path, display: Display, timer: PhaseTimer, watch: Callable[[Placed], None] | None
    ) -> Iterator[LockedRun]:
        """Context with a new run, or an interrupted one to resume. First builds a scene from photographs or a video."""
        config = load_config(self.preset, self.changes)
        warn_of_unused(config, self.changes, display)
        with timer("camera poses"):
            prepared, config = prepared_scene(scene, config, display, watch)
        is_made = prepared != scene
        scene, dataset_format = scene_folder(prepared, config.format)
        config = dataclasses.replace(config, format=dataset_format)
        begun = itertools.takewhile(Path.exists, numbered_folders(_default_folder(scene)))
        unfinished = interrupted_run([self.out] if self.out else begun, scene, config)
        if unfinished and is_made:
            display.say(f"Continuing {unfinished}, which was interrupted")
            with locked_run(unfinished) as run:
                yield run, plan_resumption(run, scene, {}, display)
            return
        if unfinished and not self.out:  # with --out, new_locked_run reports it
            display.say(f"{unfinished} is not finished: splat train --resume {quoted(unfinished)} continues it")
        with new_locked_run(self._new_folder(scene)) as run:
            yield run, Resumption(scene, config, None)


def _default_folder(scene: Path) -> Path:
    """runs/NAME, the folder of the first run on a scene without --out; later runs get numbers."""
    path = scene.resolve()
    return Path("runs") / (path.stem if path.is_file() else path.name)
