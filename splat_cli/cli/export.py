"""`splat export`."""

from pathlib import Path

import click

from splat_cli.cli.options import PATH
from splat_cli.cli.report import Report


@click.command(epilog="\b\nExample:\n  splat export runs/garden garden.ply --sh-degree 1 --min-opacity 0.02")
@click.argument("source", type=PATH, metavar="RUN_OR_PLY")
@click.argument("out", type=PATH, metavar="OUT.ply")
@click.option(
    "--sh-degree", type=click.IntRange(0, 3), help="Keep spherical harmonics up to this degree.  [default: all]"
)
@click.option(
    "--min-opacity", type=click.FloatRange(0, 1), help="Leave out splats under this opacity.  [default: none]"
)
def command(source: Path, out: Path, sh_degree: int | None, min_opacity: float | None) -> Report:
    """Write the splats of a run (its last step) or of a PLY file as a standard 3DGS PLY.

    The file is binary little endian with the properties and their order of the INRIA code; OUT.ply is replaced if it
    exists.
    """
    from splat_cli.errors import UsageError
    from splat_cli.gaussians.edit import drop_transparent, limit_sh_degree
    from splat_cli.gaussians.ply import read_ply, write_ply
    from splat_cli.train.run_folder import find_splats

    if out.suffix.lower() != ".ply" or out.is_dir():
        raise UsageError(f"{out} is not the name of a .ply file")
    splats = read_ply(find_splats(source)[0])
    if sh_degree is not None:
        splats = limit_sh_degree(splats, sh_degree)
    if min_opacity is not None:
        splats = drop_transparent(splats, min_opacity)
    write_ply(out, splats)
    line = f"{len(splats):,} splats with spherical harmonics of degree {splats.sh_degree}: {out}"
    return Report([line], {"ply": out, "num_splats": len(splats), "sh_degree": splats.sh_degree})
