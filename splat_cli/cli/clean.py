"""`splat clean`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from splat_cli.cli.display import Output, display_options
from splat_cli.cli.options import PATH, device_option, warn_of_idle
from splat_cli.cli.param_types import FiniteRange

if TYPE_CHECKING:
    from splat_cli.commands.clean import Cleaning
    from splat_cli.terminal.console import Display

_WORDS = {
    "floater": "floaters in front of what photographs show",
    "unneeded": "that no picture needs",
    "alone": "that lie alone",
    "needle": "needles that stick out",
}


@click.command(
    epilog="\b\nExample:\n  splat clean runs/garden --preview garden.html\n  splat clean runs/garden\n"
    "  splat clean garden.spz -o clean.spz --strength 2"
)
@click.argument("source", type=PATH, metavar="RUN_OR_FILE")
@click.option(
    "-o",
    "--out",
    type=PATH,
    metavar="FILE",
    help="File to write; its suffix chooses the format.  [default: RUN/cleaned.ply, or NAME-cleaned next to the file]",
)
@click.option(
    "--strength",
    type=FiniteRange(0, 100, min_open=True),
    metavar="X",
    default=1.0,
    show_default=True,
    help="Factor of all limits: 2 removes more, 0.5 less.",
)
@click.option(
    "--preview",
    type=PATH,
    metavar="FILE",
    help="Write only this page (.html) or file: all splats, with those to remove in magenta.",
)
@click.option(
    "--scene", type=PATH, metavar="DIR", help="Folder of the scene, if it has moved.  [default: as in training]"
)
@device_option
@display_options
def command(
    source: Path,
    out: Path | None,
    strength: float,
    preview: Path | None,
    scene: Path | None,
    device: str,
    display: "Display",
) -> Output:
    """Remove floaters, haze, needles and splats that no picture needs.

    The splats of a run are judged by its training photographs. Floaters stand where photographs show a point of the
    scene farther away. Other splats are removed if no picture needs them, or if few views see them and they lie alone
    or stick out as needles. A file without a run is judged by opacities, sizes and neighbours alone.

    RUN_OR_FILE does not change. Writes the remaining splats, and next to them a picture from outside of the cameras'
    path: before, with the splats to remove in magenta, and after. With held-out photographs, prints their PSNR before
    and after.
    """
    from splat_cli.commands.clean import find_cleaning, held_out_psnr, save_outside_pictures
    from splat_cli.commands.export import notes_of_file
    from splat_cli.device import open_backend
    from splat_cli.errors import UsageError
    from splat_cli.gaussians.formats.table import format_for, write_as

    if preview and out:
        raise UsageError("--preview writes only the preview, and -o names another file: leave one of them out")
    target = preview or out or _default_output(source)
    picture = target.with_name(f"{target.name.partition('.')[0]}.png")
    _check_output(source, target, picture, is_preview=preview is not None)
    backend = open_backend(device)
    cleaning = find_cleaning(source, strength, scene, backend, display)
    if cleaning.run is None:
        warn_of_idle(display, "for a file without a run", "scene")
    lines = [_summary(cleaning), *([] if cleaning.run else [f"{source} is not in a run: judged by shape alone"])]
    data = {"num_splats": len(cleaning.splats), **cleaning.counts(), "file": target}
    if preview:
        notes = _write_preview(preview, source, cleaning)
        return Output([*lines, f"Preview, with splats to remove in magenta: {preview}", *notes], data)
    kept = cleaning.exported()
    write_as(format_for(target), target, kept)
    lines += notes_of_file(target, kept)
    if outside := len(cleaning.kept()) - len(kept):
        lines.append(f"{outside:,} splats outside of the run's --crop are left out, too")
    save_outside_pictures(picture, cleaning, backend)
    if psnr := held_out_psnr(cleaning, scene, backend, display):
        lines.append("Held-out photographs: PSNR {:.2f} before, {:.2f} after".format(*psnr))
        data["psnr_before"], data["psnr"] = psnr
    lines += [f"Cleaned: {target}", f"From outside, before, with removed splats in magenta, and after: {picture}"]
    return Output(lines, {**data, "picture": picture})


def _summary(cleaning: "Cleaning") -> str:
    """Number of splats to remove, in total and for each reason."""
    counts, num = cleaning.counts(), len(cleaning.splats)
    reasons = ", ".join(f"{count:,} {_WORDS[name]}" for name, count in counts.items() if count)
    total = sum(counts.values())
    share = f" ({total / num:.1%})" if num else ""
    return f"{total:,} of {num:,} splats to remove{share}{': ' if reasons else ''}{reasons}"


def _default_output(source: Path) -> Path:
    """RUN/cleaned.ply; garden.compressed.ply -> garden-cleaned.compressed.ply."""
    from splat_cli.gaussians.formats import with_ending
    from splat_cli.run.storage.find_run import find_splats

    file, run = find_splats(source)
    return run.path / "cleaned.ply" if run else with_ending(file, "-cleaned")


def _check_output(source: Path, target: Path, picture: Path, is_preview: bool) -> None:
    """UsageError if a file to write is the source, splats of a run, a folder, or cannot hold splats."""
    from splat_cli.errors import UsageError
    from splat_cli.gaussians.formats import format_for
    from splat_cli.render.images import refuse_foreign
    from splat_cli.report.page import refuse_other_file
    from splat_cli.run.storage.find_run import find_splats, refuse_file_of_run

    refuse_file_of_run(target)
    if not is_preview:
        refuse_foreign([picture])
    if target.exists() and target.samefile(find_splats(source)[0]):
        raise UsageError(f"{target} is the source, which stays: name another file to write")
    if is_preview and target.suffix.lower() == ".html":
        refuse_other_file(target)
    else:
        format_for(target)


def _write_preview(path: Path, source: Path, cleaning: "Cleaning") -> list[str]:
    """Write all splats, with those to remove in magenta, as a page or in the format of the suffix; what is lost."""
    from splat_cli.commands.export import notes_of_file
    from splat_cli.gaussians.formats.table import format_for, writable_splats, write_as
    from splat_cli.viewer.initial_camera import find_initial_camera

    if path.suffix.lower() == ".html":
        find_initial_camera([source], None).write(path, cleaning.highlighted())
        return []
    splats = writable_splats(path, cleaning.highlighted())
    write_as(format_for(path), path, splats)
    return notes_of_file(path, splats)
