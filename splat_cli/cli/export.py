"""`splat export`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from splat_cli.cli.display import Output, display_options
from splat_cli.cli.options import PATH, SectionedCommand, spz_axes_of, warn_of_idle
from splat_cli.cli.param_types import FiniteRange, FormatName, Length, Numbers, WholeRange
from splat_cli.errors import UsageError, quoted

if TYPE_CHECKING:
    from splat_cli.gaussians.editing.edits import Edits
    from splat_cli.terminal.console import Display


_LENGTH = FiniteRange(0, min_open=True)

_OPTIONS = (
    click.option(
        "--crop", metavar="X,Y,Z,...|none",
        help="Keep splats inside a sphere x,y,z,radius or a box x0,y0,z0,x1,y1,z1.  [default: as trained with --crop]",
    ),
    click.option("--min-opacity", type=FiniteRange(0, 1), metavar="X", help="Remove splats with a lower opacity."),
    click.option(
        "--min-size", type=_LENGTH, metavar="LENGTH",
        help="Remove splats whose longest axis is shorter, in world units.",
    ),
    click.option(
        "--max-size", type=_LENGTH, metavar="LENGTH",
        help="Remove splats whose longest axis is longer, in world units.",
    ),
    click.option(
        "--clean", type=FiniteRange(0, 100, min_open=True), metavar="STRENGTH",
        help="Remove floaters, needles and splats that no picture needs, as `splat clean --strength STRENGTH` does.",
    ),
    click.option(
        "--min-contribution", type=_LENGTH, metavar="PIXELS",
        help="Remove splats that contribute less to a training view, as a mean over the views, in pixels.",
    ),
    click.option(
        "--max-splats", type=WholeRange(1), metavar="N",
        help="Maximum number of splats: keeps those that contribute most to training views; for files, the largest.",
    ),
    click.option("--scale", type=FiniteRange(1e-6, 1e6), metavar="X", help="Scale everything by this factor."),
    click.option(
        "--scale-by", type=(Numbers("X,Y,Z"), Numbers("X,Y,Z"), Length()), metavar="A B LENGTH",
        help="Scale everything to metres: points A and B, each X,Y,Z, are LENGTH apart, such as 1.25m or 80cm. "
        "splat view, pages and reports measure points.",
    ),
    click.option("--rotate", type=Numbers("X,Y,Z"), help="Rotate about x, then y, then z, in degrees."),
    click.option(
        "--upright", is_flag=True,
        help="Rotate so that the y axis points straight down: by the cameras of a run, or by the ground of a file.",
    ),
    click.option(
        "--translate", type=Numbers("X,Y,Z"), help="Translate by this, in world units, after scaling and rotation."
    ),
    click.option(
        "--sh-degree", type=WholeRange(0, 3), metavar="N",
        help="Keep spherical harmonics up to this degree.  [default: all]",
    ),
    click.option(
        "--morton", is_flag=True,
        help="Sort the splats along a Morton curve, so that neighbours in the file are close in space.",
    ),
)  # fmt: skip


def edit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `edits_of` takes as arguments."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def edits_of(crop: str | None, scale_by: tuple[Any, Any, float] | None = None, **values: Any) -> Edits:
    """The edits that the options describe. UsageError if they are invalid or contradict each other."""
    from splat_cli.gaussians.editing.edits import Edits, scale_between
    from splat_cli.scene.crop import parse_crop

    if scale_by is not None:
        if values["scale"] is not None:
            raise UsageError("--scale and --scale-by exclude each other: leave one of them out")
        values["scale"] = scale_between(*scale_by)
    return Edits(crop=parse_crop(crop) if crop and crop != "none" else None, **values)


_AXES = "axes right, up, back, as Niantic states them; SuperSplat and splat-transform need --spz-axes rdf"


@click.command(
    cls=SectionedCommand,
    sections={
        "crop": "Splats to remove",
        "scale": "Scale, rotation, translation",
        "sh_degree": "Contents of the file",
        "lod": "Levels of detail",
        "progress": "General",
    },
    epilog="\b\nExample:\n  splat export runs/garden garden.ply --sh-degree 1 --min-opacity 0.02\n"
    "  splat export runs/garden garden.sog --crop 0,0,0,5 --max-splats 500000\n"
    "  splat export runs/garden garden.spz --lod 4\n"
    "  splat export runs/garden garden.glb --upright --scale-by 0.1,0.4,2 1.3,0.4,2 80cm\n"
    "  splat export house.spz garden.splat both.compressed.ply --rotate 90,0,0\n"
    "  splat export runs/garden garden.html --start-view DSC_0042\n"
    "  splat export runs/garden tiles/tileset.json",
)
@click.argument("sources", type=PATH, metavar="RUN_OR_FILE...", nargs=-1)
@click.argument("out", type=PATH, metavar="OUT")
@click.option("--format", "format_name", type=FormatName(), help="Format of OUT.  [default: from its suffix]")
@click.option(
    "--cameras",
    type=PATH,
    metavar="FILE",
    help="Also write the cameras of the run (JSON), transformed like the splats.",
)
@click.option(
    "--start-view",
    metavar="NAME|N|FILE",
    help="Initial view of an .html page: name or number of a view, or a .json file of cameras, through which its play "
    "button flies.  [default: first view]",
)
@edit_options
@click.option(
    "--bake/--no-bake",
    default=True,
    help="Adapt sizes and opacities of splats trained with --antialias to viewers without antialiasing.  "
    "[default: bake]",
)
@click.option(
    "--appearance",
    metavar="NAME",
    help="With a colour field: appearance of the training photograph NAME.  [default: mean appearance]",
)
@click.option(
    "--spz-axes",
    type=click.Choice(["rub", "rdf"]),
    help="Axes of .spz: rub (right, up, back: Niantic) or rdf (right, down, forward: SuperSplat, splat-transform); "
    "of OUT, and of sources that do not state theirs.  [default: rub]",
)
@click.option(
    "--lod",
    type=WholeRange(2, 16),
    metavar="N",
    help="Write N levels of detail, OUT_lod0, ...: each has half the splats of the one before, fine-tuned. In "
    "lod-meta.json, neighbours are merged.  [default: 5 in lod-meta.json]",
)
@click.option(
    "--lod-steps",
    type=WholeRange(0, 100_000),
    metavar="N",
    help="Training steps per level of detail.  [default: 500]",
)
@display_options
def command(
    sources: tuple[Path, ...],
    out: Path,
    format_name: str | None,
    lod: int | None,
    lod_steps: int | None,
    bake: bool,
    appearance: str | None,
    cameras: Path | None,
    start_view: str | None,
    spz_axes: str | None,
    display: Display,
    crop: str | None,
    upright: bool,
    **edits: Any,
) -> Output:
    """Write the splats of runs or files as one file for viewers.

    Exports the last step of a run; several sources are merged. The suffix of OUT chooses the format: .ply (standard
    3DGS, as the INRIA code writes it), .compressed.ply (PlayCanvas), .splat, .spz (Niantic), .sog (PlayCanvas), .glb
    (glTF) or .spz.glb (glTF with SPZ inside, for Cesium); sources may have any of these formats. .usdc and .usda are
    OpenUSD and need the extra `usd`. An .html file is a page with the splats and a viewer.
    FOLDER/lod-meta.json (PlayCanvas' Streamed SOG) and FOLDER/tileset.json (3D Tiles, for CesiumJS) have several levels
    of detail in chunks, which viewers load on demand.
    OUT is replaced if it exists, except files of runs and pages of other programs.

    Splats are first removed, in the coordinates of the sources; the rest are then scaled, rotated and translated.
    Coordinates are in the units of the scene, or in metres with --scale-by.
    """
    from splat_cli.commands.export import ExportJob, ExportTarget
    from splat_cli.run.storage.find_run import find_splats
    from splat_cli.run.storage.load_run import save_cameras

    if not sources:
        raise UsageError(f"name the file to write, too: splat export {quoted(out)} OUT.ply (or .spz, .html, ...)")
    axes = spz_axes_of(spz_axes, *([Path("out.spz")] if format_name == "spz" else [out]), *sources)
    target = ExportTarget(out, format_name, lod, lod_steps, start_view, axes)
    job = ExportJob(
        sources,
        edits_of(crop, **edits),
        bake and not target.is_page,  # a page's viewer supports antialiasing
        crop_runs=crop is None,
        appearance=appearance,
        spz_axes=axes,
        display=display,
    )
    job = job.upright() if upright else job
    write = None if target.is_tiled else target.writer(job)
    target.check(cameras)
    if target.is_page:
        warn_of_idle(display, "for a page, whose viewer supports antialiasing", "bake")
    elif not any(find_splats(source)[1] for source in sources):
        warn_of_idle(display, "for files: they are written as they are", "bake")
    if cameras is not None:
        save_cameras(sources, job.edits, cameras)
        job.notes.append(f"Cameras: {cameras}")
    if write is None:
        return Output(*target.write_tiles(job))
    files, notes = target.write(job, write), job.notes
    if spz_axes is None and target.has_format("spz"):
        notes.append(_AXES)
    rows = [dataclasses.asdict(file) for file in files]
    return Output([*map(str, files), *notes, *files[0].notes(target.is_page)], {"levels": rows} if lod else rows[0])
