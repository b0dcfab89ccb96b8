"""Implementation of `splat export`: merges, edits and bakes splats; fine-tunes levels of detail."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from splat_cli.gaussians.editing.edits import Edits, SplatStats, keep_largest, merged
from splat_cli.gaussians.editing.move import angles_about_axes, with_origin
from splat_cli.gaussians.formats import streamed_sog, tiles_3d, usd, with_ending
from splat_cli.gaussians.formats.table import FORMATS, NO_SH, Format, format_for, has_suffix, loss_notes, write_as
from splat_cli.gaussians.ply import finite_splats
from splat_cli.io.files import files_below
from splat_cli.render.view import contributions
from splat_cli.report.page import refuse_other_file
from splat_cli.run.export_splats import fine_tune
from splat_cli.run.storage.find_run import find_splats, refuse_file_of_run
from splat_cli.run.storage.load_run import (
    bake_for_viewers,
    field_path,
    inside_crop,
    load_run_images,
    load_trained_splats,
    warn_of_earlier_step,
)
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.quaternion import rotation_from_vector
from splat_cli.scene.trajectories.focus import UP, ground_normal, up_direction
from splat_cli.terminal.console import Display, Level
from splat_cli.viewer.initial_camera import find_initial_camera


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
    shows the progress of long work.
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

        Up comes from the cameras of the first run among the sources (see `up_direction`). Without one, it is the
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
        splats, edits = merged(parts), self.edits
        if any(splats.origin):
            note = _origin_note(splats) + (", before scale, rotation and translation" if edits.is_moving else "")
            if note not in self.notes:  # one per level of detail is too many
                self.notes.append(note)
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


_LEVELS, _LOD_STEPS = 5, 500

_ANTIALIASED = "trained with --antialias: switch on antialiasing (Mip-Splatting) in the viewer to see them as trained"
_MANY = 500_000
_LARGE_PAGE = (
    f"pages with over {_MANY:,} splats are slow on phones: keep those that contribute most (--max-splats {_MANY}), or "
    "export levels of detail that stream (FOLDER/lod-meta.json)"
)


@dataclass(frozen=True)
class ExportedFile:
    """A written file, as in --json.

    dropped_sh: whether the format dropped harmonics. num_cut: splats clamped to the limits of the format. coarse_step:
    quantization step of positions in world units, if it is coarse for the splats. bytes: size of the file.
    """

    file: Path
    num_splats: int
    sh_degree: int
    dropped_sh: bool
    antialiased: bool
    num_cut: int
    coarse_step: float | None
    bytes: int

    @classmethod
    def of(cls, file: Path, splats: SplatArrays, written_as: Format) -> ExportedFile:
        """Description of the file that contains `splats`."""
        return cls(
            file=file,
            num_splats=len(splats),
            sh_degree=splats.sh_degree if written_as.keeps_sh else 0,
            dropped_sh=written_as.drops_sh(splats),
            antialiased=splats.antialiased,
            num_cut=written_as.num_cut(splats),
            coarse_step=written_as.coarse_step(splats),
            bytes=file.stat().st_size,
        )

    def notes(self, is_page: bool) -> Iterator[str]:
        """Messages about losses due to the format, and about antialiasing unless the file is a page."""
        yield from loss_notes(self.num_cut, self.coarse_step)
        if is_page and self.num_splats > _MANY:
            yield _LARGE_PAGE
        if self.dropped_sh:
            yield NO_SH
        if self.antialiased and not is_page:
            yield _ANTIALIASED

    def __str__(self) -> str:
        size = self.bytes / 2**20
        return (
            f"{self.num_splats:,} splats, spherical harmonics of degree {self.sh_degree}, {size:.1f} MiB: {self.file}"
        )


def _origin_note(splats: SplatArrays) -> str:
    return f"coordinates are relative to {', '.join(f'{value:.15g}' for value in splats.origin)}"


def notes_of_file(file: Path, splats: SplatArrays) -> list[str]:
    """Messages about a file to which splats were written: what its format lost, their origin, its axes."""
    written_as = format_for(file)
    origin = [_origin_note(splats)] if any(splats.origin) else []
    axes = ["axes right, up, back, as Niantic states them"] if written_as is FORMATS["spz"] else []
    return [*origin, *axes, *ExportedFile.of(file, splats, written_as).notes(is_page=False)]


@dataclass(frozen=True)
class ExportTarget:
    """What `splat export` writes for its options OUT, --format, --lod, --lod-steps, --start-view and --spz-axes."""

    out: Path
    format_name: str | None = None
    lod: int | None = None
    lod_steps: int | None = None
    start_view: str | None = None
    spz_axes: str = "RUB"

    def has_format(self, name: str) -> bool:
        """Whether the format of OUT is `name`: given by --format or the suffix."""
        return self.format_name == name or (self.format_name is None and self.out.suffix.lower() == f".{name}")

    @property
    def is_page(self) -> bool:
        """Whether OUT is a page with a viewer."""
        return self.has_format("html")

    @property
    def is_usd(self) -> bool:
        """Whether OUT is OpenUSD, which is only written."""
        return self.format_name is None and self.out.suffix.lower() in usd.SUFFIXES

    @property
    def is_tiled(self) -> bool:
        """Whether OUT is the index of a folder of Streamed SOG or of 3D Tiles."""
        return self.format_name is None and self.out.name in (streamed_sog.NAME, tiles_3d.NAME)

    def writer(self, job: ExportJob) -> Callable[[Path, SplatArrays], None]:
        """The function that writes splats to a path. UsageError, before long work, if OUT has no format."""
        if self.is_page:
            return find_initial_camera(job.sources, self.start_view).moved(job.edits.similarity()).write
        if self.is_usd:
            usd.require_usd()
            return usd.write_usd
        found = format_for(self.out, self.format_name, ".html", *usd.SUFFIXES)
        return lambda path, splats: write_as(found, path, splats, self.spz_axes)

    def check(self, cameras: Path | None = None) -> None:
        """UsageError for options that do not fit, or if a file to write holds something other than splats or a page.

        cameras: another file that the command writes.
        """
        refuse_file_of_run(self.out)
        if self.start_view is not None and not self.is_page:
            raise UsageError("--start-view needs a page: give OUT a name that ends in .html")
        files = [level_path(self.out, number) for number in range(self.lod)] if self.lod else [self.out]
        if cameras is not None and cameras.resolve() in [file.resolve() for file in files]:
            raise UsageError(f"the splats are written to {cameras}: name another file for --cameras")
        for file in files:
            if self.is_page:
                refuse_other_file(file)
            elif self.format_name and file.exists() and not has_suffix(file):
                raise UsageError(
                    f"{file} exists and is not named like a file of splats: name another file, or remove it"
                )
        if self.lod_steps is not None and (self.lod is None or self.is_tiled):
            raise UsageError("--lod-steps needs --lod and a file of splats: add --lod N, or leave --lod-steps out")

    def write(self, job: ExportJob, write: Callable[[Path, SplatArrays], None]) -> list[ExportedFile]:
        """Write OUT, or with --lod a file for each level: OUT_lod0, ..."""
        steps = _LOD_STEPS if self.lod_steps is None else self.lod_steps
        levels = job.levels(self.lod, steps, job.display) if self.lod else [job.splats()]
        files = []
        for number, splats in enumerate(levels):
            file = level_path(self.out, number) if self.lod else self.out
            write(file, splats)
            files.append(ExportedFile.of(file, splats, self._format_with_the_same_losses()))
        return files

    def write_tiles(self, job: ExportJob) -> tuple[list[str], dict[str, object]]:
        """Write Streamed SOG with levels of detail, or 3D Tiles; returns lines for the user and their JSON."""
        is_sog = self.out.name == streamed_sog.NAME
        if self.lod and not is_sog:
            raise UsageError(f"{self.out.name} has as many levels of detail as its splats need: leave --lod out")
        splats = job.splats()
        if is_sog:
            counts = streamed_sog.write_streamed_sog(self.out, splats, self.lod or _LEVELS)
        else:
            counts = tiles_3d.write_tileset(self.out, splats)
        size = sum(file.stat().st_size for file in files_below(self.out.parent))
        written = f"{', '.join(f'{count:,}' for count in counts)} splats, {size / 2**20:.1f} MiB: {self.out}"
        kind = FORMATS["sog" if is_sog else "spz"]
        lines = [written, *job.notes, *loss_notes(kind.num_cut(splats), kind.coarse_step(splats))]
        return lines, {"file": self.out, "counts": counts, "bytes": size}

    def _format_with_the_same_losses(self) -> Format:
        """The format of OUT; for a page, SOG, which it embeds; for OpenUSD, glTF, which keeps as much."""
        if self.is_page:
            return FORMATS["sog"]
        return FORMATS["glb"] if self.is_usd else format_for(self.out, self.format_name)


def level_path(out: Path, level: int) -> Path:
    """OUT.spz -> OUT_lod0.spz."""
    return with_ending(out, f"_lod{level}")
