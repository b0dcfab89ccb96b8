"""Implementation of `splat export`: merges, edits and bakes splats; fine-tunes levels of detail."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from splat_cli.commands.clean import find_reasons
from splat_cli.device import Backend, open_backend
from splat_cli.errors import UsageError
from splat_cli.eval.cleaning import Reason
from splat_cli.field.bake_sh import bake_field
from splat_cli.field.file import read_field
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.editing.edits import Edits, SplatStats
from splat_cli.gaussians.editing.move import angles_about_axes, with_origin
from splat_cli.gaussians.editing.selection import keep_largest, merged
from splat_cli.gaussians.ply import finite_splats
from splat_cli.render.contribution import contributions
from splat_cli.run.export_splats import fine_tune
from splat_cli.run.storage.find_run import find_splats
from splat_cli.run.storage.load_images import load_run_images
from splat_cli.run.storage.load_splats import (
    bake_for_viewers,
    field_path,
    inside_crop,
    load_trained_splats,
    warn_of_earlier_step,
)
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.quaternion import rotation_from_vector
from splat_cli.scene.trajectories.focus import ground_normal, up_direction
from splat_cli.scene.trajectories.look_at import UP
from splat_cli.terminal.console import Display, Level


def levels_of_detail(
    backend: Backend, run: RunDir, splats: SplatArrays, num_levels: int, steps: int, display: Display
) -> Iterator[SplatArrays]:
    """The run's splats, then repeatedly the half with the largest contributions, fine-tuned for `steps` steps.

    SceneError if the run's photographs are missing.
    """
    yield splats
    if num_levels < 2:
        return
    photographs = load_run_images(run, run.views("train"), None, backend, display, for_training=True)
    for level in range(1, num_levels):
        scores = contributions(backend, splats, photographs.views)
        half = keep_largest(splats, scores, max(1, len(splats) // 2))
        display.say(f"Level {level}: {len(half):,} splats, {steps} steps")
        with display.training(steps) as show:
            splats = fine_tune(backend, half, photographs, run.config(), steps, show)
        yield splats


@dataclass(frozen=True)
class ExportJob:
    """Splats to export from `sources`, runs and files.

    bake: adapt sizes and opacities to viewers without antialiasing. crop_runs: apply each run's own crop. appearance:
    training photograph whose appearance is baked, for runs with a colour field. notes: messages for the user. display:
    of what takes long.
    """

    sources: Sequence[Path]
    edits: Edits
    bake: bool = True
    crop_runs: bool = True
    appearance: str | None = None
    spz_axes: str = "RUB"
    notes: list[str] = field(default_factory=list)
    display: Display = field(default_factory=lambda: Display(level=Level.QUIET))

    def upright(self) -> ExportJob:
        """The job with the rotation that turns the up direction to -y. UsageError if it rotates already.

        Up is that of the cameras of the first run among the sources (see `up_direction`). Without one, it is the
        normal of the ground of the first file, within 25 degrees of -y.
        """
        if self.edits.rotate is not None:
            raise UsageError("--upright and --rotate exclude each other: leave one of them out")
        source = next((source for source in self.sources if find_splats(source)[1]), self.sources[0])
        splats, run = load_trained_splats(source, self.spz_axes)
        up = up_direction(run.views("all"), splats.means) if run else ground_normal(splats.means, UP)
        if up is None:
            raise UsageError(f"{source} has neither cameras nor a ground for --upright: name a run, or use --rotate")
        axis, cosine = np.cross(up, UP), float(np.clip(up @ UP, -1, 1))
        length = np.linalg.norm(axis)
        axis = axis / length if length > 1e-9 else np.array([1.0, 0.0, 0.0])
        angles = angles_about_axes(rotation_from_vector(axis * np.arccos(cosine)))
        note = f"upright: turned by {np.degrees(np.arccos(cosine)):.1f} degrees, as --rotate {_listed(angles)}"
        return dataclasses.replace(
            self, edits=dataclasses.replace(self.edits, rotate=angles), notes=[*self.notes, note]
        )

    def splats(self) -> SplatArrays:
        """All sources merged and edited. UsageError, DeviceError."""
        return self._edited([self._trained(source) for source in self.sources])

    def levels(self, num_levels: int, steps: int, display: Display) -> Iterator[SplatArrays]:
        """The splats of one run, then half, a quarter, ... of them, each fine-tuned for `steps` steps; edited."""
        splats, run = self._trained(self.sources[0])
        if len(self.sources) > 1 or run is None:
            raise UsageError("--lod trains on the photographs of a run: give the folder of one run alone")
        for level in levels_of_detail(open_backend(), run, splats, num_levels, steps, display):
            yield self._edited([(level, run)])

    def _trained(self, source: Path) -> tuple[SplatArrays, RunDir | None]:
        """Splats as trained; a colour field is baked again for another appearance or SH degree."""
        splats, run = load_trained_splats(source, self.spz_axes)
        warn_of_earlier_step(source, self.display)
        self.notes.extend(splats.reading_notes(source))
        if self.appearance is None and self.edits.sh_degree is None:
            return splats, run
        path = field_path(source)
        if path is None or run is None:
            if self.appearance is not None:
                raise UsageError(f"--appearance {self.appearance}: {source} is not a run with --color field")
            return splats, run
        degree = run.config().sh_degree if self.edits.sh_degree is None else self.edits.sh_degree
        saved = read_field(path)
        embedding = saved.embedding(self.appearance)
        baked = bake_field(saved.open(open_backend(), 1), saved.splats, run.views("train"), degree, embedding)
        self.notes.append(
            f"{source}: its colour field is baked into harmonics of degree {degree}, with an error of "
            f"{baked.residual:.4f} (root mean square of colours 0 to 1)"
        )
        return baked.splats, run

    def _edited(self, found: Sequence[tuple[SplatArrays, RunDir | None]]) -> SplatArrays:
        judged = [self._part(splats, run) for splats, run in found]
        parts = [part for part, _ in judged]
        if len({part.antialiased for part in parts}) > 1:
            self.notes.append(
                "some of the sources are antialiased and some are not: no viewer shows both as trained; give runs of "
                "one kind, or leave out --no-bake"
            )
        splats = merged(parts)
        edits = self.edits
        too_many = edits.max_splats is not None and len(splats) > edits.max_splats
        runs = [run for _, run in found]
        if edits.min_contribution is not None and None in runs:
            raise UsageError("--min-contribution needs the views of runs: leave it out, or name no files")
        edited = edits.apply(
            splats,
            SplatStats(
                contributions=_contributions(parts, runs) if edits.min_contribution is not None or too_many else None,
                goes=None if edits.clean is None else np.concatenate([goes for _, goes in judged]),
            ),
        )
        count = sum(len(whole) for whole, _ in found)
        if count == 0 and (num_dropped := sum(whole.num_dropped for whole, _ in found)):
            raise UsageError(f"none of the {num_dropped:,} splats is finite: export them again")
        if len(edited) == 0 and count:
            raise UsageError(f"none of the {count:,} splats is left: crop less, or lower the limits")
        finite = finite_splats(edited)
        if len(edited) and not len(finite):
            raise UsageError(f"none of the {len(edited):,} splats is finite after the edits: scale or translate less")
        if lost := len(edited) - len(finite):
            self.notes.append(f"left out {lost:,} splats that are not finite after the edits: scale or translate less")
        return finite

    def _part(self, splats: SplatArrays, run: RunDir | None) -> tuple[SplatArrays, np.ndarray]:
        """Splats cropped and baked, and whether cleaning removes each, bool [N]: it is judged as trained."""
        splats = splats if run is None else with_origin(splats, run.origin())  # missing in older runs and colour fields
        goes = np.zeros(len(splats), bool)
        if self.edits.clean is not None:
            goes = find_reasons(splats, run, self.edits.clean, None, open_backend(), self.display) != Reason.NONE
        if run is None:
            return splats, goes
        inside = inside_crop(splats.means, run) if self.crop_runs else np.ones(len(splats), bool)
        if not inside.all():
            splats, goes = splats.select(inside), goes[inside]
        return (bake_for_viewers(splats, run) if self.bake else splats), goes


def _listed(numbers: Iterable[float]) -> str:
    return ",".join(f"{number:.4g}" for number in numbers)


def _contributions(parts: Sequence[SplatArrays], runs: Sequence[RunDir | None]) -> np.ndarray | None:
    """Contributions of the splats of all parts to the training views of their runs; None if a part has no run."""
    known = [run for run in runs if run is not None]
    if len(known) < len(runs):
        return None
    backend = open_backend()
    return np.concatenate(
        [contributions(backend, part, run.views("train")) for part, run in zip(parts, known, strict=True)]
    )
