"""`splat cell`: hidden command; `splat city` runs it as a job per cell, and for the last pass."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from splat_cli.cli.display import Output, display_options
from splat_cli.cli.options import PATH, device_option
from splat_cli.terminal.phase_timer import PhaseTimer

if TYPE_CHECKING:
    from splat_cli.terminal.console import Display


@click.command(hidden=True)
@click.argument("out", type=PATH)
@click.argument("number", type=int, required=False)
@click.option("--gpus", default=1)
@device_option
@display_options
def command(out: Path, number: int | None, gpus: int, device: str, display: "Display") -> Output:
    """Prepare and train cell NUMBER of the city in OUT; without NUMBER, run the last pass."""
    timer = PhaseTimer("starting")
    from splat_cli.commands.city.cell import train_cell
    from splat_cli.commands.city.city import read_city
    from splat_cli.run.device import open_device

    city = read_city(out, device)
    backend = open_device(device, city.config, display)
    result = train_cell(city, number, backend, gpus, display, timer)
    return Output(result.lines(), result.to_dict())
