"""Loading of a run's splats, and of its colour field, onto a device."""

from __future__ import annotations

from pathlib import Path

from splat_cli.device import Backend
from splat_cli.field.color_field import ColorField
from splat_cli.field.file import NAME, FieldFile, read_field
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.ply import read_ply
from splat_cli.gaussians.splats import Splats
from splat_cli.run.storage.find_run import find_splats


def field_path(source: Path) -> Path | None:
    """File of the run's colour field; None for runs without one and for files of splats. Raises UsageError."""
    path = find_splats(source)[0].with_name(NAME)
    return path if source.is_dir() and path.is_file() else None


def saved_field(ply: Path) -> FieldFile | None:
    """The field saved with a run's PLY, or None. FormatError if it is damaged."""
    path = ply.with_name(NAME)
    return read_field(path) if path.is_file() else None


def load_model(ply: Path, backend: Backend, arrays: SplatArrays | None = None) -> tuple[Splats, ColorField | None]:
    """Splats and colour field as trained; without a field, splats of the PLY, or `arrays` if already read."""
    saved = saved_field(ply)
    if saved is None:
        return Splats.from_arrays(backend, read_ply(ply) if arrays is None else arrays), None
    splats = Splats.from_arrays(backend, saved.splats)
    return splats, saved.open(backend, splats.capacity)
