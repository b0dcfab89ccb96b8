"""Contents of a file written by `splat export`, and losses due to its format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.formats.table import Format, loss_notes

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
