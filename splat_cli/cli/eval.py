"""`splat eval`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from splat_cli.cli.display import display_options
from splat_cli.cli.options import PATH, device_option, lpips_option
from splat_cli.cli.output import Output

if TYPE_CHECKING:
    from splat_cli.terminal.console import Display


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
    splats. Adds the numbers and the protocol to RUN/metrics.json.
    """
    from splat_cli.commands.evaluate import evaluate_run
    from splat_cli.device import open_backend
    from splat_cli.eval.metrics import has_flip

    metrics = evaluate_run(
        source, scene, open_backend(device), display, pictures=save_pictures, with_flip=has_flip(), lpips=lpips
    )
    width = max(len(name) for name in metrics.scores)
    mean = metrics.mean
    with_flip, with_fit, with_pose = (x is not None for x in (mean.flip, mean.fitted_psnr, mean.pose_fitted_psnr))
    measures = f"   PSNR    SSIM{'    FLIP' * with_flip}{'   LPIPS' * bool(lpips)}{'  fitted PSNR    SSIM' * with_fit}"
    measures += "  pose fitted PSNR    SSIM" * with_pose
    title = f"{'photograph':<{width}}{measures}"
    lines = [title]
    for name, score in {**metrics.scores, "mean": mean}.items():
        looks = "" if score.flip is None else f"  {score.flip:.4f}"
        looks += "" if score.lpips is None else f"  {score.lpips:.4f}"
        for psnr, ssim, columns in (
            (score.fitted_psnr, score.fitted_ssim, 11),
            (score.pose_fitted_psnr, score.pose_fitted_ssim, 16),
        ):
            looks += "" if psnr is None else f"  {psnr:{columns}.2f}  {ssim:.4f}"
        lines.append(f"{name:<{width}}  {score.psnr:5.2f}  {score.ssim:.4f}{looks}")
    if (hidden := metrics.free_space.get("hidden_points")) is not None:
        lines += ["", f"Points hidden by floaters: {hidden:.1%} of the points that the views see"]
    lines += ["", f"Step {metrics.step}. Protocol: {metrics.protocol}"]
    if metrics.unwritten:
        display.warn(f"the scores are printed only: {metrics.unwritten}")
    else:
        lines += [f"Written to {metrics.path}"]
    lines += [f"Pictures: {save_pictures}"] if save_pictures else []
    return Output(lines, metrics.to_dict(), metrics.unwritten.exit_code if metrics.unwritten else 0)
