"""Table of file formats by name and extension."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from splat_cli.errors import UsageError
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.formats.compressed_ply import is_compressed_ply, read_compressed_ply, write_compressed_ply
from splat_cli.gaussians.formats.dot_splat import read_dot_splat, write_dot_splat
from splat_cli.gaussians.formats.gltf import read_glb, write_glb
from splat_cli.gaussians.formats.sog import read_sog, write_sog
from splat_cli.gaussians.formats.spz import read_spz, write_spz
from splat_cli.gaussians.ply import read_ply, write_ply


@dataclass(frozen=True)
class Format:
    """A kind of file: the end of its name, how it is read and written, and whether it keeps spherical harmonics."""

    suffix: str
    read: Callable[[Path], SplatArrays]
    write: Callable[[Path, SplatArrays], None]
    keeps_sh: bool = True


FORMATS = {
    "compressed-ply": Format(".compressed.ply", read_compressed_ply, write_compressed_ply),
    "ply": Format(".ply", read_ply, write_ply),
    "splat": Format(".splat", read_dot_splat, write_dot_splat, keeps_sh=False),
    "spz": Format(".spz", read_spz, write_spz),
    "sog": Format(".sog", read_sog, write_sog),
    "glb": Format(".glb", read_glb, write_glb),
}
"""Name -> format; the first whose suffix ends a file's name is its format."""


def format_for(path: Path, name: str | None = None, *others: str) -> Format:
    """The format called `name`, by default the one that the file's name asks for. UsageError where there is none.

    others: endings that the caller takes, too, for the message.
    """
    if name is not None:
        return FORMATS[name]
    for found in FORMATS.values():
        if path.name.lower().endswith(found.suffix):
            return found
    known = ", ".join((*(found.suffix for found in FORMATS.values()), *others))
    raise UsageError(f"{path} is no file of splats by its name: expected one that ends in {known}")


def read_splats(path: str | Path, spz_axes: str = "RUB") -> SplatArrays:
    """Reads splats from a file of any of the formats; a PLY may be a compressed one whatever its name.

    spz_axes: axes of an .spz file that does not state its own, "RUB" or "RDF". Splats that are not finite are dropped
    and counted. FormatError where the file is damaged, UsageError where its name has no known extension.
    """
    path = Path(path)
    found = format_for(path)
    if found.read is read_spz:
        return read_spz(path, spz_axes)
    return read_compressed_ply(path) if found.read is read_ply and is_compressed_ply(path) else found.read(path)


def write_splats(path: str | Path, splats: SplatArrays, name: str | None = None, spz_axes: str = "RUB") -> None:
    """Writes splats in the format called `name`, by default by the file's extension; it appears when complete.

    spz_axes: axes in an .spz file, "RUB" or "RDF".
    """
    found = format_for(Path(path), name)
    if found.write is write_spz:
        write_spz(Path(path), splats, spz_axes)
    else:
        found.write(Path(path), splats)
