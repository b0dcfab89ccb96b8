"""`splat export`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from splat_cli.cli.numbers import Numbers
from splat_cli.cli.options import PATH
from splat_cli.cli.output import Output

if TYPE_CHECKING:
    from splat_cli.gaussians.arrays import SplatArrays

_FORMATS = ("ply", "compressed-ply", "splat", "spz", "sog", "glb", "html")

_ANTIALIASED = "trained with --antialias: a viewer shows them as trained with antialiasing (Mip-Splatting) switched on"


@click.command(
    epilog="\b\nExample:\n  splat export runs/garden garden.ply --sh-degree 1 --min-opacity 0.02\n"
    "  splat export runs/garden garden.spz --crop 0,0,0,5 --max-count 500000\n"
    "  splat export house.spz garden.splat both.compressed.ply --rotate 90,0,0\n"
    "  splat export runs/garden garden.html --start-view DSC_0042"
)
@click.argument("sources", type=PATH, metavar="RUN_OR_FILE...", nargs=-1, required=True)
@click.argument("out", type=PATH, metavar="OUT")
@click.option("--format", "format_name", type=click.Choice(_FORMATS), help="Format of OUT.  [default: by its name]")
@click.option("--crop", metavar="X,Y,Z,...", help="Keep what is in a sphere x,y,z,radius or a box x0,y0,z0,x1,y1,z1.")
@click.option(
    "--min-opacity", type=click.FloatRange(0, 1), help="Leave out splats under this opacity.  [default: none]"
)
@click.option("--scale", type=click.FloatRange(1e-6, 1e6), help="Make everything this much larger.")
@click.option("--rotate", type=Numbers("X,Y,Z"), help="Turn by these degrees about x, then y, then z.")
@click.option("--translate", type=Numbers("X,Y,Z"), help="Move by this, after scaling and turning.")
@click.option("--max-count", type=click.IntRange(1), help="Keep so many splats, those of the largest opacity * area.")
@click.option(
    "--sh-degree", type=click.IntRange(0, 3), help="Keep spherical harmonics up to this degree.  [default: all]"
)
@click.option("--morton", is_flag=True, help="Order the splats so that neighbours in the file are near in space.")
@click.option(
    "--bake/--no-bake",
    default=True,
    help="Set the opacities of a run trained with --antialias so that viewers without it show them alike.  "
    "[default: bake]",
)
@click.option(
    "--cameras",
    type=PATH,
    metavar="FILE",
    help="Write the cameras of the run as well (JSON), moved with the splats.",
)
@click.option(
    "--start-view",
    metavar="NAME|N|FILE",
    help="View that a page opens with: its name, its number, or a .json file of cameras.  [default: the run's first]",
)
def command(
    sources: tuple[Path, ...],
    out: Path,
    format_name: str | None,
    crop: str | None,
    min_opacity: float | None,
    scale: float | None,
    rotate: tuple[float, float, float] | None,
    translate: tuple[float, float, float] | None,
    max_count: int | None,
    sh_degree: int | None,
    morton: bool,
    bake: bool,
    cameras: Path | None,
    start_view: str | None,
) -> Output:
    """Write the splats of runs or files as one file for viewers.

    Of a run, the splats of its last step; several sources become one set. OUT's name chooses the format: .ply
    (standard 3DGS, as the INRIA code writes it), .compressed.ply (PlayCanvas), .splat, .spz (Niantic), .sog
    (PlayCanvas) or .glb (glTF); all of them are read, too. An .html file is a page with a viewer inside, which
    opens in a browser from any disk. OUT is replaced if it exists.

    Cropping and --min-opacity come first, in the coordinates of the sources; then scaling, turning and moving; last
    the limits and the order.
    """
    from splat_cli.errors import UsageError
    from splat_cli.gaussians.choose import merged
    from splat_cli.gaussians.edits import Edits
    from splat_cli.gaussians.formats import format_for, write_splats
    from splat_cli.scene.crop import parse_crop
    from splat_cli.train.source import save_cameras, splats_for_viewers
    from splat_cli.viewer.opening import find_opening

    is_page = format_name == "html" or (format_name is None and out.suffix.lower() == ".html")
    if not is_page:
        format_for(out, format_name)  # before anything takes time
        if start_view is not None:
            raise UsageError("--start-view is where a page opens: give OUT a name that ends in .html")
    if out.is_dir():
        raise UsageError(f"{out} is a folder; give the name of a file to write")
    edits = Edits(
        crop=parse_crop(crop) if crop else None, min_opacity=min_opacity, scale=scale, rotate=rotate,
        translate=translate, max_count=max_count, sh_degree=sh_degree, morton=morton,
    )  # fmt: skip
    opening = find_opening(sources, start_view) if is_page else None
    # a page's viewer has antialiasing
    splats = edits.apply(merged([splats_for_viewers(source, bake and not is_page) for source in sources]))
    if cameras is not None:
        save_cameras(sources, edits, cameras)
    if opening is None:
        write_splats(out, splats, format_name)
    else:
        opening.moved(edits.similarity()).write(out, splats)
    return _output(out, cameras, splats, is_page)


def _output(out: Path, cameras: Path | None, splats: "SplatArrays", is_page: bool) -> Output:
    notes = [f"Cameras: {cameras}"] if cameras else []
    if splats.antialiased and not is_page:
        notes.append(_ANTIALIASED)
    size = out.stat().st_size
    line = f"{len(splats):,} splats, spherical harmonics of degree {splats.sh_degree}, {size / 2**20:.1f} MiB: {out}"
    return Output(
        [line, *notes], {"file": out, "num_splats": len(splats), "sh_degree": splats.sh_degree, "bytes": size}
    )
