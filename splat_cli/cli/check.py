"""`splat check`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from splat_cli.cli.display import Output, display_options
from splat_cli.cli.options import PATH, frames_option, warn_of_idle

if TYPE_CHECKING:
    from splat_cli.commands.photo_checks import Checked
    from splat_cli.terminal.console import Display


@click.command(
    epilog="\b\nExample:\n  splat check photos/garden\n  splat check walk.mp4 --frames 100\n"
    "  splat check scenes/garden -o check.html"
)
@click.argument("source", type=PATH, metavar="PHOTOS|VIDEO|SCENE")
@click.option(
    "-o", "--out", type=PATH, metavar="FILE.html",
    help="Also write a page with the photographs concerned and a map of places for more photographs.",
)  # fmt: skip
@frames_option("Number of frames of a video to check.")
@display_options
def command(source: Path, out: Path | None, frames: int, display: "Display") -> Output:
    """Check photographs before training.

    Looks for blur, jumps of exposure, duplicates, moving things, too little overlap, missing directions, and places
    where more photographs would help most; with camera poses also for signs of wrong ones. Without poses, rough ones
    are estimated. Needs pycolmap (pip install 'splat-cli[sfm]') for all except blur and duplicates.
    """
    from splat_cli.commands.check import check
    from splat_cli.scene.sfm import is_video

    if out is not None:
        from splat_cli.report.page import refuse_other_file

        refuse_other_file(out)
    if not is_video(source):
        warn_of_idle(display, "for photographs: it is for videos", "frames")
    checked = check(source, frames, display.counting, out)
    return Output(_lines(checked, out), checked.to_dict() | {"page": out})


def _lines(checked: "Checked", out: Path | None) -> list[str]:
    width = max(len(one.topic) for one in checked.findings)
    marks = ["!!" if not one.ok else "ok" if one.is_known else "??" for one in checked.findings]
    lines = [f"{mark}  {one.topic:<{width}}  {one.text}" for mark, one in zip(marks, checked.findings, strict=True)]
    lines += [f"    more would help between {' and '.join(place.between)}" for place in checked.places]
    lines.append(f"{len(checked.photographs)} photographs; {checked.duration}")
    return [*lines, *([f"Page: {out}"] if out else [])]
