"""The splats of a run on the disk: the PLY for every program, and a colour field's own file beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from splat_cli.field.bake import bake_field
from splat_cli.field.file import NAME, write_field
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.ply import finite_splats, write_ply
from splat_cli.train.trainer import Trainer


@dataclass(frozen=True)
class Saved:
    """What the PLY holds; a line about the field's file and about what the PLY has lost, where there is a field."""

    splats: SplatArrays
    notice: str | None = None


def save_splats(trainer: Trainer, path: Path) -> Saved:
    """Writes the finite splats as PLY; a colour field is baked into it. DiskError, UsageError as `write_ply`."""
    splats, field, views = finite_splats(trainer.splats.to_arrays()), trainer.besides.field, trainer.cameras.views
    splats.antialiased = trainer.config.antialias
    if field is None:
        write_ply(path, splats)
        return Saved(splats)
    own, degree = path.with_name(NAME), trainer.config.sh_degree
    write_field(own, field, splats, [view.name for view in views])
    baked = bake_field(field, splats, views, degree)
    write_ply(path, baked.splats)
    sizes = [f"{file.stat().st_size / 2**20:.1f} MiB" for file in (own, path)]
    return Saved(
        baked.splats,
        f"Colour field with its splats: {sizes[0]}, {own}; as a PLY: {sizes[1]}, its harmonics of degree {degree} "
        f"are {baked.residual:.4f} off (root mean square of colours 0 to 1)",
    )
