"""`splat city`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from splat_cli.cli.display import Output, display_options
from splat_cli.cli.options import PATH, SettingsCommand, cluster_option, device_option, given, setting_options
from splat_cli.cli.param_types import WholeRange

if TYPE_CHECKING:
    from splat_cli.terminal.console import Display

_NO_LIMIT = 2**28  # maximum of the setting


@click.command(
    cls=SettingsCommand,
    epilog="\b\nExample:\n  splat city scenes/town -o runs/town --eval\n"
    "  splat city scenes/town -o runs/town --cell-splats 500000 --cell-steps 20000",
)
@click.argument("scene", type=PATH)
@click.option("-o", "--out", type=PATH, metavar="DIR", required=True, help="Folder of the result and of all stages.")
@click.option(
    "--cell-splats",
    type=WholeRange(100),
    metavar="N",
    help="Maximum number of splats of a cell.  [default: what fits on the device beside as many frozen ones]",
)
@click.option(
    "--cell-steps",
    type=WholeRange(1),
    metavar="N",
    help="Training steps of each cell.  [default: --steps, or by the cell's number of photographs]",
)
@click.option(
    "--last-steps",
    type=WholeRange(0),
    metavar="N",
    help="Steps of the last pass, over all photographs; 0: none.  [default: --steps, or by the number of photographs]",
)
@click.option(
    "--lod",
    type=WholeRange(0, 16),
    metavar="N",
    default=5,
    show_default=True,
    help="Levels of detail in OUT/lod/lod-meta.json (PlayCanvas' Streamed SOG), each with half the splats; 0: none.",
)
@click.option("--preset", metavar="PRESET", help="Name of a preset or a .toml file; options override it.")
@cluster_option
@device_option
@display_options
@setting_options(for_city=True)
def command(
    scene: Path,
    out: Path,
    cell_splats: int | None,
    cell_steps: int | None,
    last_steps: int | None,
    lod: int,
    preset: str | None,
    cluster: str | None,
    device: str,
    display: "Display",
    **options: Any,
) -> Output:
    """Train a large scene in parts and merge them.

    Each part fits into device memory. OUT becomes the folder of a run, like that of `splat train`. Repeating the
    command skips finished stages and resumes the others.

    A coarse run over the whole scene fixes poses and exposures. The ground is then divided into cells of at most
    --cell-splats splats. Each cell is trained with a margin, on the photographs that show it, while the coarse splats
    around it are rendered, too; the splats within the cell become a part of the result. The stages are in OUT/coarse
    and OUT/cells.

    The last pass sees all photographs and trains all splats that fit into the memory of device and host, because
    some, such as sky and ground, reach into many cells.

    With several GPUs, or with --cluster, cells without a common border are trained at the same time. The coarse run
    uses the largest number of GPUs that divides its batch.

    --max-splats limits the splats of the whole result; by default it follows the number of training pixels. Settings
    apply to all runs; --steps applies to the coarse run.
    """
    from splat_cli.commands.city.city import open_city
    from splat_cli.commands.city.merge import levels_of
    from splat_cli.commands.city.stages import train_city
    from splat_cli.commands.photo_scene import prepared_scene
    from splat_cli.config.presets import load_config
    from splat_cli.io.folder_lock import locked_folder
    from splat_cli.scene.formats import scene_folder

    unlimited = {} if options["splat_budget"] == 0 else {"max_splats": _NO_LIMIT}
    config = load_config(preset, {**unlimited, **given(options)})
    scene, config = prepared_scene(scene, config, display)
    scene, _ = scene_folder(scene, config.format)
    cell_steps, last_steps = (config.steps if steps is None else steps for steps in (cell_steps, last_steps))
    with locked_folder(out, make=True):
        city = open_city(scene, out, config, cell_splats, cell_steps, last_steps, device, cluster, display)
        result = train_city(city, display)
        index = levels_of(result, lod, display)
    lines = [f"{result.num_splats:,} splats, trained in {result.seconds:.1f} s", *result.lines()]
    lines += [f"Levels of detail: {index}"] if index else []
    return Output(lines, {**result.to_dict(), "lod": index})
