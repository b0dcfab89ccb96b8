"""Table of file formats by name and extension."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from splat_cli.errors import UsageError
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.formats import compressed_ply, spz
from splat_cli.gaussians.formats.compressed_ply import is_compressed_ply, read_compressed_ply, write_compressed_ply
from splat_cli.gaussians.formats.dot_splat import read_dot_splat, write_dot_splat
from splat_cli.gaussians.formats.gltf import read_glb, write_glb
from splat_cli.gaussians.formats.sog import read_sog, write_sog
from splat_cli.gaussians.formats.spz import read_spz, write_spz
from splat_cli.gaussians.ply import read_ply, write_ply


@dataclass(frozen=True)
class Format:
    """A kind of file: the end of its name, how it is read and written, and whether it keeps spherical harmonics.

    num_cut: number of splats whose position or size is changed to the limits of the format.
    """

    suffix: str
    read: Callable[[Path], SplatArrays]
    write: Callable[[Path, SplatArrays], None]
    keeps_sh: bool = True
    num_cut: Callable[[SplatArrays], int] = lambda splats: 0


FORMATS = {
    "compressed-ply": Format(
        ".compressed.ply", read_compressed_ply, write_compressed_ply, num_cut=compressed_ply.num_cut
    ),
    "ply": Format(".ply", read_ply, write_ply),
    "splat": Format(".splat", read_dot_splat, write_dot_splat, keeps_sh=False),
    "spz": Format(".spz", read_spz, write_spz, num_cut=spz.num_cut),
    "sog": Format(".sog", read_sog, write_sog),
    "glb": Format(".glb", read_glb, write_glb),
}
"""Name -> format; the first with a matching suffix is used."""


def format_for(path: Path, name: str | None = None, *others: str) -> Format:
    """The format called `name`, or by default that of the file's suffix. UsageError if there is none.

    others: further suffixes that the caller accepts, for the message.
    """
    if name is not None:
        return FORMATS[name]
    for found in FORMATS.values():
        if path.name.lower().endswith(found.suffix):
            return found
    known = ", ".join((*(found.suffix for found in FORMATS.values()), *others))
    raise UsageError(f"{path} has no suffix of a file of splats: expected a name that ends in {known}")


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
    """Write splats in the format called `name`, by default that of the suffix; atomic."""
    found = format_for(Path(path), name)
    if found.write is write_spz:
        write_spz(Path(path), splats, spz_axes)
    else:
        found.write(Path(path), splats)
