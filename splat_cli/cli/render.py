"""`splat render`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from splat_cli.cli.display import display_options
from splat_cli.cli.options import PATH, Color, Size, device_option
from splat_cli.cli.output import Output

if TYPE_CHECKING:
    from splat_cli.train.progress import Display


@click.command(
    epilog="\b\nExample:\n  splat render runs/garden --views test\n"
    "  splat render runs/garden --path interpolate --frames 240 --size 1280x720\n"
    "  splat render garden.spz --cameras cameras.json --background white -o pictures"
)
@click.argument("source", type=PATH, metavar="RUN_OR_FILE")
@click.option("-o", "--out", type=PATH, help="Folder of the pictures.  [default: RUN/renders/..., or renders/...]")
@click.option("--views", type=click.Choice(["test", "train", "all"]), help="Views of the run.  [default: test, or all]")
@click.option("--cameras", type=PATH, help="Views of a cameras.json file instead.")
@click.option("--path", "path_kind", type=click.Choice(["interpolate"]), help="A smooth path through these views.")
@click.option(
    "--frames", type=click.IntRange(1, 1_000_000), metavar="N", help="Pictures along the path.  [default: 120]"
)
@click.option("--size", type=Size(), help="Size of the pictures.  [default: each view's own]")
@click.option("--background", type=Color(), metavar="COLOR", help="black, white or r,g,b.  [default: as in training]")
@click.option(
    "--antialias/--no-antialias",
    default=None,
    help="As trained with --antialias.  [default: as in training, as far as a file tells]",
)
@device_option
@display_options
def command(
    source: Path,
    out: Path | None,
    views: str | None,
    cameras: Path | None,
    path_kind: str | None,
    frames: int | None,
    size: tuple[int, int] | None,
    background: tuple[float, float, float] | None,
    antialias: bool | None,
    device: str,
    display: "Display",
) -> Output:
    """Render the splats of a run or of a file to PNG files.

    Of a run, the splats of its last step. The views are those of the run (by default the held-out ones if it has any,
    else all) or of a JSON file in the layout of cameras.json; with --path, a smooth path through them.
    """
    from splat_cli.device import open_backend
    from splat_cli.errors import UsageError
    from splat_cli.train.render_job import plan_job

    if views and cameras:
        raise UsageError("--views and --cameras exclude each other")
    if frames and not path_kind:
        raise UsageError("--frames counts the pictures of a path: add --path interpolate")
    job = plan_job(source, views, cameras).with_look(background, antialias)
    if path_kind:
        job = job.along_path(frames or 120)
    if size:
        job = job.with_size(*size)
    paths = job.render(open_backend(device), out, display)
    return Output([f"{len(paths)} pictures: {out or job.folder}"], {"pictures": [str(path) for path in paths]})
