"""Options of `splat render` as a RenderJob."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from splat_cli.cli.options import spz_axes_of
from splat_cli.errors import UsageError
from splat_cli.render.output.frame_files import MAPS, FrameFiles
from splat_cli.scene.trajectories.camera_path import CameraPath
from splat_cli.tools.render import RenderJob, plan_job

_PANORAMA = (2048, 1024)  # pixels


def render_job(source: Path, views: str | None, cameras: Path | None, **options: Any) -> RenderJob:
    """The job that the options of `splat render` describe. UsageError if they contradict each other."""

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
    if options["kind"]:
        names = ("kind", "frames", "seconds", "fps", "arc", "focus", "up")
        return CameraPath(**{name: options[name] for name in names})
    if options["frames"] or options["seconds"] or options["focus"] or options["arc"]:
        raise UsageError("--frames, --seconds, --arc and --focus need a camera path: add --path")
    if options["up"] and options["projection"] == "perspective":
        raise UsageError("--up needs --path or --projection equirectangular: add one of them")
    return None


def _files(options: dict[str, Any]) -> FrameFiles:
    levels, file_format = options["depth_levels"], options["depth_format"]
    if not options["depth"] and (levels or file_format):
        raise UsageError("--depth-format and --depth-levels need --depth: add it")
    maps = frozenset(name for name in MAPS if options[name])
    return FrameFiles(maps, options["transparent"], levels or 1000.0, file_format or "png")


def _with_projection(
    job: RenderJob,
    projection: str,
    size: tuple[int, int] | None,
    stereo: float | None,
    up: tuple[float, float, float] | None,
) -> RenderJob:
    if projection == "equirectangular":
        width, height = size or _PANORAMA
        if stereo:
            raise UsageError("--stereo and --projection equirectangular exclude each other")
        if width != 2 * height:
            raise UsageError(f"{width}x{height}: an equirectangular picture is twice as wide as high, like 2048x1024")
        return job.as_panorama(width, up)
    job = job.with_size(*size) if size else job
    return job.as_stereo(stereo) if stereo else job
