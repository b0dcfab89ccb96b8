"""`splat eval`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from splat_cli.cli.display import Output, display_options
from splat_cli.cli.options import PATH, device_option, lpips_option

if TYPE_CHECKING:
    from splat_cli.commands.evaluate import Evaluation
    from splat_cli.terminal.console import Display

_COLUMNS = (
    ("PSNR", "psnr", 5, 2),
    ("SSIM", "ssim", 6, 4),
    ("FLIP", "flip", 6, 4),
    ("LPIPS", "lpips", 6, 4),
    ("fitted PSNR", "fitted_psnr", 11, 2),
    ("SSIM", "fitted_ssim", 6, 4),
    ("pose fitted PSNR", "pose_fitted_psnr", 16, 2),
    ("SSIM", "pose_fitted_ssim", 6, 4),
)
"""Title, field of Score, width and digits."""


@click.command(
    epilog="\b\nExample:\n  splat eval runs/garden\n  splat eval runs/garden --lpips\n"
    "  splat eval runs/garden/point_cloud/iteration_7000/point_cloud.ply"
)
@click.argument("source", type=PATH, metavar="RUN")
@click.option(
    "--scene", type=PATH, metavar="DIR", help="Folder of the scene, if it has moved.  [default: as in training]"
)
@click.option(
    "--save-pictures",
    type=PATH,
    metavar="DIR",
    help="Write photograph, render and error map of each view side by side, PNG.",
)
@lpips_option
@device_option
@display_options
def command(
    source: Path, scene: Path | None, save_pictures: Path | None, lpips: str | None, device: str, display: "Display"
) -> Output:
    """Evaluate the splats of a run on its held-out photographs.

    RUN is the folder of a run (evaluates its last step) or one of its PLY files. Prints a table of PSNR and SSIM, with
    FLIP if the extra `flip` is installed, LPIPS with --lpips, and the percentage of the scene's points hidden by
    splats. Adds the numbers and the protocol to RUN/metrics.json, unless photographs have changed or are missing, or a
    PLY lacks its colour field or is of an earlier step than the run's poses, background and camera responses.
    """
    from splat_cli.commands.evaluate import evaluate_run
    from splat_cli.device import open_backend
    from splat_cli.eval.metrics import has_flip

    metrics = evaluate_run(
        source, scene, open_backend(device), display, pictures=save_pictures, with_flip=has_flip(), lpips=lpips
    )
    lines = _table(metrics)
    if (hidden := metrics.free_space.get("hidden_points")) is not None:
        lines += ["", f"Points hidden by floaters: {hidden:.1%} of the points that the views see"]
    seen = "held out from training" if metrics.held_out else "NOT held out: training saw them, too"
    lines += ["", f"After step {metrics.step}, on photographs {seen}"]
    if metrics.differs:
        display.warn(f"the scores are {metrics.differs}: they are printed only, {metrics.path} keeps the run's")
    elif metrics.save_error:
        display.warn(f"the scores are printed only: {metrics.save_error}")
    else:
        lines += [f"Written to {metrics.path}, with the protocol of evaluation"]
    lines += [f"Pictures: {save_pictures}"] if save_pictures else []
    return Output(lines, metrics.to_dict(), metrics.save_error.exit_code if metrics.save_error else 0)


def _table(metrics: "Evaluation") -> list[str]:
    """A row for each photograph and one of means, with the measures that were computed."""
    rows = {**metrics.scores, "mean": metrics.mean}
    columns = [column for column in _COLUMNS if getattr(metrics.mean, column[1]) is not None]
    width = max(map(len, ("photograph", *rows)))
    titles = "".join(f"  {title:>{size}}" for title, _, size, _ in columns)
    lines = [f"{'photograph':<{width}}{titles}"]
    for name, score in rows.items():
        cells = "".join(f"  {getattr(score, field):{size}.{digits}f}" for _, field, size, digits in columns)
        lines.append(f"{name:<{width}}{cells}")
    return lines
