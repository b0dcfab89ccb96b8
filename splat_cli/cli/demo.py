"""`splat demo`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from splat_cli.cli.display import Output, display_options
from splat_cli.cli.options import PATH, device_option, given, setting_options

if TYPE_CHECKING:
    from splat_cli.terminal.console import Display


@click.command(epilog="\b\nExample:\n  splat demo\n  splat demo /tmp/demo --device cpu")
@click.argument("out", type=PATH, required=False)
@device_option
@display_options
@setting_options("steps", "seed", preset="demo")
def command(out: Path | None, device: str, display: "Display", **options: Any) -> Output:
    """Train, evaluate and export a sample scene.

    Writes everything to OUT, a new or empty folder (by default splat-demo; if it is taken, splat-demo-2, ...).
    """
    from splat_cli.commands.demo import run_demo
    from splat_cli.config.presets import load_config
    from splat_cli.report import try_report
    from splat_cli.run.device import open_device
    from splat_cli.run.storage.find_run import new_locked_run, unused_folder

    config = load_config("demo", given(options))
    with new_locked_run(out or unused_folder(Path("splat-demo"))) as folder:
        backend = open_device(device, config, display)
        demo = run_demo(folder.path, config, backend, display)
        report = try_report(demo.result.run, backend, display)
    lines = [f"{part:<28}  {seconds:6.1f} s" for part, seconds in demo.seconds.items()]
    lines += [f"{what:<28}  {place}" for what, place in demo.places.items()]
    lines += [f"{'report':<28}  {report} (open it in a browser)"] if report else []
    result = demo.result
    if result.score is not None:
        score = f"PSNR {result.score.psnr:.2f}, SSIM {result.score.ssim:.4f}"
        lines.append(f"held-out {score}, {result.num_splats:,} splats")
    return Output(lines, {"folder": demo.root, **result.to_dict()})
