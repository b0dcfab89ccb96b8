"""`splat train`."""

from pathlib import Path
from typing import Any

import click

from splat_cli.cli.options import PATH, SettingsCommand, device_option, given, setting_options


@click.command(
    cls=SettingsCommand,
    epilog="\b\nExample:\n  splat train photos/garden --eval --steps 7000 -o runs/first",
)
@click.argument("scene", type=PATH)
@click.option(
    "-o", "--out", type=PATH, help="Folder of the run, new or empty.  [default: runs/SCENE, runs/SCENE-2, ...]"
)
@click.option("--preset", help="A preset's name (fast, quality, ...) or a .toml file; options override it.")
@device_option
@setting_options()
def command(scene: Path, out: Path | None, preset: str | None, device: str, **options: Any) -> None:
    """Train splats on the photographs of SCENE.

    SCENE is a folder with a COLMAP model (in sparse/0, sparse or colmap/sparse/0) and its photographs (in images).
    """
    from splat_cli.config import load_config
    from splat_cli.device import open_backend
    from splat_cli.train.progress import Display
    from splat_cli.train.run_folder import new_run_folder, unused_folder
    from splat_cli.train.session import train_scene

    config = load_config(preset, given(options))
    with new_run_folder(out or unused_folder(Path("runs") / scene.resolve().name)) as run:
        result = train_scene(scene, run, config, open_backend(device), Display())
    click.echo(f"{result.num_splats:,} splats after {result.steps} steps in {result.seconds:.1f} s")
    if result.score is not None:
        click.echo(f"Held-out photographs: PSNR {result.score.psnr:.2f}, SSIM {result.score.ssim:.4f}")
    click.echo(f"Run: {run.path}")
    click.echo(f"Splats: {run.ply_path(result.steps)}")
