"""`splat render`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from splat_cli.cli.display import Output, display_options
from splat_cli.cli.options import PATH, SectionedCommand, device_option, spz_axes_of, spz_axes_option, warn_of_idle
from splat_cli.cli.param_types import Color, FiniteRange, Numbers, Size, WholeRange
from splat_cli.errors import UsageError

if TYPE_CHECKING:  # imported when a job is made, so that the help stays fast
    from splat_cli.commands.render import RenderJob
    from splat_cli.render.output.frame_files import FrameFiles
    from splat_cli.scene.trajectories.camera_path import CameraPath
    from splat_cli.terminal.console import Display


_PANORAMA = (2048, 1024)  # pixels
_CIRCLE = (1024, 1024)


def render_job(source: Path, views: str | None, cameras: Path | None, **options: Any) -> RenderJob:
    """The job that the options of `splat render` describe. UsageError if they contradict each other."""
    from splat_cli.commands.render import plan_job

    if views and cameras:
        raise UsageError("--views and --cameras exclude each other")
    if options["transparent"] and options["background"]:
        raise UsageError("--transparent and --background exclude each other")
    path, files = _path(options), _files(options)
    job = plan_job(source, views, cameras, path, spz_axes_of(options["spz_axes"], source))
    job = dataclasses.replace(
        job.with_overrides(options["background"], options["antialias"]).with_appearance(options["appearance"]),
        files=files,
        frames_per_second=options["fps"] or job.frames_per_second,
        splat_scale=options["splat_scale"],
        samples=options["samples"],
    )
    return _with_projection(job, options["projection"], options["size"], options["stereo"], options["up"])


def _path(options: dict[str, Any]) -> CameraPath | None:
    from splat_cli.scene.trajectories.camera_path import CameraPath

    if options["kind"]:
        names = ("kind", "frames", "seconds", "fps", "arc", "focus", "up")
        size = options["size"] if options["projection"] == "perspective" else None
        return CameraPath(**{name: options[name] for name in names}, size=size)
    if options["frames"] or options["seconds"] or options["focus"] or options["arc"]:
        raise UsageError("--frames, --seconds, --arc and --focus need a camera path: add --path")
    if options["up"] and options["projection"] != "equirectangular":
        raise UsageError("--up needs --path or --projection equirectangular: add one of them")
    return None


def _files(options: dict[str, Any]) -> FrameFiles:
    from splat_cli.render.output.frame_files import MAPS, FrameFiles

    levels, file_format = options["depth_levels"], options["depth_format"]
    if not options["depth"] and (levels or file_format):
        raise UsageError("--depth-format and --depth-levels need --depth: add it")
    if levels and file_format == "tiff":
        raise UsageError("--depth-levels does nothing for TIFF, which stores world units: leave it out")
    maps = frozenset(name for name in MAPS if options[name])
    return FrameFiles(maps, options["transparent"], levels or 1000.0, file_format or "png")


def _with_projection(
    job: RenderJob,
    projection: str,
    size: tuple[int, int] | None,
    stereo: float | None,
    up: tuple[float, float, float] | None,
) -> RenderJob:
    if stereo and projection != "perspective":
        raise UsageError(f"--stereo and --projection {projection} exclude each other")
    if projection == "fisheye":
        width, height = size or _CIRCLE
        if width != height:
            raise UsageError(f"{width}x{height}: a fisheye picture must be a square, like 1024x1024")
        return job.as_fisheye(width)
    if projection == "equirectangular":
        width, height = size or _PANORAMA
        if width != 2 * height:
            raise UsageError(
                f"{width}x{height}: an equirectangular picture must be twice as wide as high, like 2048x1024"
            )
        return job.as_panorama(width, up)
    job = job.with_size(*size) if size else job
    return job.as_stereo(stereo) if stereo else job


@click.command(
    cls=SectionedCommand,
    sections={
        "arc": "Camera path",
        "background": "Picture",
        "alpha": "Maps",
        "projection": "Panoramas, fisheye pictures, stereo",
        "spz_axes": "General",
    },
    epilog="\b\nExample:\n  splat render runs/garden --views test\n"
    "  splat render runs/garden --path orbit --seconds 8 --size 1280x720 --video garden.mp4\n"
    "  splat render garden.spz --cameras cameras.json --depth --normal -o pictures",
)
@click.argument("source", type=PATH, metavar="RUN_OR_FILE")
@click.option(
    "-o", "--out", type=PATH, metavar="DIR", help="Folder of the pictures.  [default: RUN/renders/..., or renders/...]"
)
@click.option(
    "--views",
    type=click.Choice(["test", "train", "all"]),
    help="Views of the run.  [default: test, or all for paths]",
)
@click.option(
    "--cameras",
    type=PATH,
    metavar="FILE.json",
    help="Render the views in this file, in the layout of cameras.json, instead.",
)
@click.option(
    "--path",
    "kind",
    is_flag=False,
    flag_value="auto",
    metavar="[KIND|FILE.json]",
    help="Render a camera path: orbit or arc around the focus of the views, spiral in front of it, walk along the "
    "views, interpolate between them, or a file. Without a value: chosen to suit the views.",
)
@click.option("--video", type=PATH, metavar="OUT.mp4", help="Also write a video; needs the extra `video`.")
@click.option("--size", type=Size(), help="Size in pixels.  [default: that of each view; equirectangular: 2048x1024]")
@click.option(
    "--arc",
    type=FiniteRange(0, 360),
    metavar="DEG",
    help="Angle that an orbit covers, in degrees.  [default: that of the cameras]",
)
@click.option(
    "--frames",
    type=WholeRange(1, 1_000_000),
    metavar="N",
    help="Number of frames of the path.  [default: 120; walk: 120 to 600, by its length]",
)
@click.option(
    "--seconds",
    type=FiniteRange(0.01, 36_000),
    metavar="S",
    help="Duration of the path, in seconds, instead of --frames.",
)
@click.option(
    "--fps", type=FiniteRange(0.1, 1000), metavar="F", help="Frames per second, of paths and videos.  [default: 30]"
)
@click.option(
    "--focus",
    type=Numbers("X,Y,Z"),
    help="Point that the cameras of a path look at.  [default: the point nearest to all optical axes]",
)
@click.option("--up", type=Numbers("X,Y,Z"), help="Up direction.  [default: from the cameras and the ground]")
@click.option(
    "--background",
    type=Color(),
    metavar="COLOR",
    help="Background: black, white or r,g,b.  [default: of a run, as `splat eval`; of a file, black]",
)
@click.option("--transparent", is_flag=True, help="Write PNG files with an alpha channel, without a background.")
@click.option(
    "--appearance",
    metavar="NAME[,NAME]",
    help="With a colour field: appearance of the training photograph NAME, or a transition between two.  "
    "[default: mean appearance]",
)
@click.option(
    "--antialias/--no-antialias",
    default=None,
    help="Antialiasing of Mip-Splatting.  [default: as in training, or as stated in the file]",
)
@click.option(
    "--splat-scale",
    type=FiniteRange(0.001, 1000),
    default=1.0,
    show_default=True,
    metavar="X",
    help="Factor on the sizes of splats; they stay where they are.",
)
@click.option(
    "--samples",
    type=WholeRange(1, 8),
    metavar="N",
    help="Supersampling: N x N samples per pixel.  [default: from the photographs of an antialiased run, up to 4]",
)
@click.option("--alpha", is_flag=True, help="Also write opacity maps, 8-bit PNG, to OUT/alpha.")
@click.option("--depth", is_flag=True, help="Also write depth maps to OUT/depth.")
@click.option(
    "--depth-format",
    type=click.Choice(["png", "tiff"]),
    help="Format of depth maps: 16-bit PNG or 32-bit TIFF.  [default: png]",
)
@click.option(
    "--depth-levels",
    type=FiniteRange(0, 1e9, min_open=True),
    metavar="L",
    help="Levels per world unit in 16-bit depth maps.  [default: 1000]",
)
@click.option("--normal", is_flag=True, help="Also write normal maps, 8-bit PNG, to OUT/normal.")
@click.option(
    "--projection",
    type=click.Choice(["perspective", "equirectangular", "fisheye"]),
    default="perspective",
    show_default=True,
    help="Projection; equirectangular: panorama of 360 by 180 degrees; fisheye: circle of 180 degrees.",
)
@click.option(
    "--stereo",
    type=FiniteRange(0, min_open=True),
    metavar="BASELINE",
    help="Distance of a stereo pair, in world units; left and right are written side by side.",
)
@spz_axes_option
@device_option
@display_options
def command(
    source: Path, out: Path | None, video: Path | None, device: str, display: Display, **options: Any
) -> Output:
    """Render a run or a file of splats: pictures, maps, videos.

    Renders the last step of a run. The views come from the run (by default the held-out views, or all without held-out
    views) or from a JSON file in the layout of cameras.json. --path makes a camera path through or around them.

    Repeating the command keeps frames that are up to date and removes frames beyond the end of a shorter path.
    """
    from splat_cli.device import open_backend
    from splat_cli.render.output.video import require_video

    if video:
        require_video(video)
    elif not options["kind"]:
        warn_of_idle(display, "without --path and --video", "fps")
    if options["kind"] == "interpolate" or (options["kind"] or "").endswith(".json"):
        is_sphere = options["projection"] == "equirectangular"
        warn_of_idle(display, f"with --path {options['kind']}", "focus", *([] if is_sphere else ["up"]))
    if (options["kind"] or "").endswith(".json"):
        warn_of_idle(display, "with a path from a file", "views", "cameras")
    job = render_job(source, **options)
    written = job.render(open_backend(device), out, display)
    lines = [f"{len(written.pictures)} pictures: {out or job.folder}"]
    if written.num_kept:
        lines.append(f"{written.num_kept} of them were up to date")
    if job.files.maps:
        lines.append(f"maps: {', '.join(sorted(job.files.maps))}")
    if written.num_cut:
        reach = 65535 / job.files.depth_levels
        display.warn(
            f"depths over {reach:g} units were clipped in {written.num_cut} of {len(written.pictures)} pictures: "
            "lower --depth-levels, or use --depth-format tiff"
        )
    if video:
        job.write_video(video, written, display)
        lines.append(f"video, {job.frames_per_second:g} frames per second: {video}")
    data = {"pictures": [str(path) for path in written.pictures], "kept": written.num_kept, "video": video}
    return Output(lines, data)
