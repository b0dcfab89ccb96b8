"""Where `splat export` writes: files, pages, levels of detail, Streamed SOG and 3D Tiles; losses due to formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from splat_cli.commands.export import ExportJob
from splat_cli.errors import UsageError
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.formats import streamed_sog, tiles_3d, usd, with_ending
from splat_cli.gaussians.formats.table import FORMATS, Format, format_for, has_suffix, loss_notes, write_as
from splat_cli.io.files import files_below
from splat_cli.report.page import refuse_other_file
from splat_cli.run.storage.find_run import refuse_file_of_run
from splat_cli.viewer.initial_camera import find_initial_camera

_LEVELS, _LOD_STEPS = 5, 500

_ANTIALIASED = "trained with --antialias: switch on antialiasing (Mip-Splatting) in the viewer to see them as trained"
_NO_SH = "the format has one colour per splat: view-dependent colours (spherical harmonics) were dropped"
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
            dropped_sh=splats.sh_degree > 0 and not written_as.keeps_sh,
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
            yield _NO_SH
        if self.antialiased and not is_page:
            yield _ANTIALIASED

    def __str__(self) -> str:
        size = self.bytes / 2**20
        return (
            f"{self.num_splats:,} splats, spherical harmonics of degree {self.sh_degree}, {size:.1f} MiB: {self.file}"
        )


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
        """UsageError for options that do not fit, or if a file to write holds something else than splats or a page.

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
        """The format of OUT; of a page the SOG inside, of OpenUSD, which also keeps everything, glTF."""
        if self.is_page:
            return FORMATS["sog"]
        return FORMATS["glb"] if self.is_usd else format_for(self.out, self.format_name)


def level_path(out: Path, level: int) -> Path:
    """OUT.spz -> OUT_lod0.spz."""
    return with_ending(out, f"_lod{level}")
