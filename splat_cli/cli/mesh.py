"""`splat mesh`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from splat_cli.cli.display import Output, display_options
from splat_cli.cli.options import PATH, device_option
from splat_cli.cli.param_types import FiniteRange

if TYPE_CHECKING:
    from splat_cli.terminal.console import Display


@click.command(
    epilog="\b\nExample:\n  splat train scenes/garden --preset mesh\n  splat mesh runs/garden garden.glb\n"
    "  splat mesh runs/garden garden.ply --voxel 0.01"
)
@click.argument("source", type=PATH, metavar="RUN")
@click.argument("out", type=PATH, metavar="OUT")
@click.option(
    "--voxel",
    type=FiniteRange(0, min_open=True),
    metavar="LENGTH",
    help="Size of voxels, in world units; triangles are about as large.  [default: 1.5 pixels at the median depth, "
    "at most 512 voxels across the scene]",
)
@click.option(
    "--max-depth",
    type=FiniteRange(0, min_open=True),
    metavar="LENGTH",
    help="Leave out surfaces farther from every camera, in world units.  [default: 3 times the median depth]",
)
@click.option(
    "--min-part", type=FiniteRange(0, 1), metavar="X", default=0.005, show_default=True,
    help="Remove connected parts with less than this share of all triangles.",
)  # fmt: skip
@click.option(
    "--steps", type=click.IntRange(0), metavar="N", default=1000, show_default=True,
    help="Train N steps first, which fit the splats to the points of the dataset; 0: mesh them as they are.",
)  # fmt: skip
@device_option
@display_options
def command(
    source: Path, out: Path, voxel: float | None, max_depth: float | None, min_part: float, steps: int, device: str,
    display: "Display",
) -> Output:  # fmt: skip
    """Write a coloured triangle mesh of a run.

    First fits the splats to the points of the dataset, by training on the photographs; RUN does not change. Then fuses
    the depths that the training views render, so that surfaces appear where views agree. Plain walls and floors become
    flat; what no view shows stays open. Runs of `splat train --preset mesh` need no such training, and lie closer.
    The suffix of OUT chooses the format: .ply, .glb (glTF) or .obj. Vertices have colours. Needs the extra `mesh`. OUT
    is replaced if it exists, except files of runs.
    """
    from splat_cli.commands.mesh import mesh_of_run, require_mesh, write_mesh
    from splat_cli.device import open_backend
    from splat_cli.run.storage.find_run import is_run
    from splat_cli.run.storage.run_dir import RunDir

    require_mesh(out)
    mesh, size = mesh_of_run(source, open_backend(device), display, voxel, max_depth, min_part, steps)
    write_mesh(out, mesh)
    mib = out.stat().st_size / 2**20
    line = f"{len(mesh.faces):,} triangles, {len(mesh.vertices):,} vertices, voxels of {size:.3g}, {mib:.1f} MiB: {out}"
    data = {"file": out, "triangles": len(mesh.faces), "vertices": len(mesh.vertices), "voxel": size}
    origin = RunDir(source).origin().tolist() if is_run(source) else [0.0] * 3
    shift = [f"coordinates are relative to {', '.join(f'{value:.0f}' for value in origin)}"] * any(origin)
    return Output([line, *shift], {**data, "origin": origin})
