"""Table of file formats by name and suffix, and the losses of each."""

import dataclasses
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from splat_cli.errors import FormatError, UsageError
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.formats import compressed_ply, sog, spz
from splat_cli.gaussians.formats.compressed_ply import is_compressed_ply, read_compressed_ply, write_compressed_ply
from splat_cli.gaussians.formats.dot_splat import read_dot_splat, write_dot_splat
from splat_cli.gaussians.formats.gltf import read_glb, write_glb, write_spz_glb
from splat_cli.gaussians.formats.sog import read_sog, write_sog
from splat_cli.gaussians.formats.spz import read_spz, write_spz
from splat_cli.gaussians.ply import finite_splats, finite_where_opaque, read_ply, write_ply

_CUT = (
    "{:,} splats are larger, smaller or farther from the origin than the format can hold, and were cut: try another "
    "unit (--scale)"
)
_COARSE = (
    "positions are stored in steps of {:.2g} world units, which is coarse for splats of this size: move the splats to "
    "the origin (--translate), or remove the farthest ones (--crop)"
)
NO_SH = "the format has one colour per splat: view-dependent colours (spherical harmonics) were dropped"
_NO_ANTIALIASING = (
    "the format cannot say that the splats are antialiased, and readers show them larger: adapt them "
    "(TrainedScene.save, convert of a run), or write another format"
)
_NO_ORIGIN = "the format cannot state the origin, {}, that coordinates are relative to"
_MAX_STEP = 0.5
"""Step of positions, relative to the longest axis of a splat, up to which rounding is hardly visible."""


def float_steps(splats: SplatArrays) -> np.ndarray:
    """Distance [N] between neighbouring float32 coordinates at each splat, world units."""
    return np.spacing(np.abs(splats.means).max(axis=1))


@dataclass(frozen=True)
class Format:
    """A file format: its suffix, its reader and writer, and whether it keeps harmonics, antialiasing and origin.

    num_cut: number of splats whose position or size is changed to the limits of the format. steps: [N], distance
    between neighbouring coordinates that the file can hold, world units.
    """

    suffix: str
    read: Callable[[Path], SplatArrays]
    write: Callable[[Path, SplatArrays], None]
    keeps_sh: bool = True
    keeps_antialiasing: bool = True
    keeps_origin: bool = False
    num_cut: Callable[[SplatArrays], int] = lambda splats: 0
    steps: Callable[[SplatArrays], np.ndarray] = float_steps

    def drops_sh(self, splats: SplatArrays) -> bool:
        """Whether the splats have spherical harmonics that the file cannot hold."""
        return splats.sh_degree > 0 and not self.keeps_sh

    def dropped(self, splats: SplatArrays) -> list[str]:
        """Messages about what the splats have and the file cannot hold."""
        notes = [NO_SH] if self.drops_sh(splats) else []
        if splats.antialiased and not self.keeps_antialiasing:
            notes.append(_NO_ANTIALIASING)
        if any(splats.origin) and not self.keeps_origin:
            notes.append(_NO_ORIGIN.format(", ".join(f"{value:.15g}" for value in splats.origin)))
        return notes

    def coarse_step(self, splats: SplatArrays) -> float | None:
        """Median distance between neighbouring coordinates, if most splats are too small for it; else None."""
        if len(splats) == 0:
            return None
        steps = self.steps(splats).astype(np.float64)
        return float(np.median(steps)) if np.median(steps / splats.longest_axes()) > _MAX_STEP else None


FORMATS = {
    "compressed-ply": Format(
        ".compressed.ply", read_compressed_ply, write_compressed_ply, keeps_origin=True, num_cut=compressed_ply.num_cut
    ),
    "ply": Format(".ply", read_ply, write_ply, keeps_origin=True),
    "splat": Format(".splat", read_dot_splat, write_dot_splat, keeps_sh=False, keeps_antialiasing=False),
    "spz": Format(".spz", read_spz, write_spz, num_cut=spz.num_cut, steps=spz.steps),
    "sog": Format(".sog", read_sog, write_sog, steps=sog.steps),
    "spz-glb": Format(".spz.glb", read_glb, write_spz_glb, num_cut=spz.num_cut, steps=spz.steps),
    "glb": Format(".glb", read_glb, write_glb),
}
"""Name -> format; the first with a matching suffix is used."""


def format_for(path: Path, name: str | None = None, *others: str) -> Format:
    """The format called `name`; by default, the suffix decides. UsageError for an unknown suffix.

    others: further suffixes that the caller accepts, for the message.
    """
    if name is not None:
        return FORMATS[name]
    for found in FORMATS.values():
        if path.name.lower().endswith(found.suffix):
            return found
    known = ", ".join((*(found.suffix for found in FORMATS.values()), *others))
    raise UsageError(f"{path} is not a name for a file of splats: expected one that ends in {known}")


def has_suffix(path: Path) -> bool:
    """Whether a name ends like a file of splats."""
    return path.name.lower().endswith(tuple(found.suffix for found in FORMATS.values()))


def with_ending(path: Path, ending: str) -> Path:
    """a.compressed.ply, -b -> a-b.compressed.ply."""
    suffix = next((kind.suffix for kind in FORMATS.values() if path.name.lower().endswith(kind.suffix)), path.suffix)
    stem = path.name[: len(path.name) - len(suffix)]
    return path.with_name(f"{stem}{ending}{path.name[len(stem) :]}")


def read_splats(path: str | Path, spz_axes: str = "RUB") -> SplatArrays:
    """Read splats from a file of any format; compressed PLY files are detected by their header.

    Non-finite splats are dropped and counted. FormatError if the file is damaged, UsageError for an unknown suffix.
    """
    path = Path(path)
    found = format_for(path)
    if found.read is read_spz:
        return read_spz(path, spz_axes)
    return read_compressed_ply(path) if found.read is read_ply and is_compressed_ply(path) else found.read(path)


def write_splats(path: str | Path, splats: SplatArrays, name: str | None = None, spz_axes: str = "RUB") -> None:
    """Write splats in the format called `name`; by default, the suffix decides. Atomic.

    Non-finite splats are left out. Warns of these, and of what the format drops or rounds. FormatError if no splat is
    finite.
    """
    path, found = Path(path), format_for(Path(path), name)
    finite = writable_splats(path, splats)
    notes = [f"left out {lost:,} splats that are not finite"] if (lost := len(splats) - len(finite)) else []
    for note in notes + found.dropped(finite) + loss_notes(found.num_cut(finite), found.coarse_step(finite)):
        warnings.warn(f"{path}: {note}", stacklevel=2)
    write_as(found, path, finite, spz_axes)


def write_as(written_as: Format, path: Path, splats: SplatArrays, spz_axes: str = "RUB") -> None:
    """Write finite splats in a format; atomic."""
    if written_as.write is write_spz:
        write_spz(path, splats, spz_axes)
    else:
        written_as.write(path, splats)


def writable_splats(path: Path, splats: SplatArrays) -> SplatArrays:
    """The finite splats, for a file at `path`; infinite logits count as opaque. FormatError if there are none."""
    finite = finite_splats(dataclasses.replace(splats, logit_opacities=finite_where_opaque(splats.logit_opacities)))
    if len(splats) and not len(finite):
        raise FormatError(
            f"{path} was not written: none of the {len(splats):,} splats is finite; scale or move them less"
        )
    return finite


def loss_notes(num_cut: int, coarse_step: float | None) -> list[str]:
    """Messages on the losses of a format: see `Format`."""
    notes = [_CUT.format(num_cut)] if num_cut else []
    return notes if coarse_step is None else [*notes, _COARSE.format(coarse_step)]
