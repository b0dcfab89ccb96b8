"""Structure from motion of photographs or a video, with pycolmap (the optional extra `sfm`)."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

from splat_cli.scene.plausibility import refuse_photographs
from splat_cli.scene.sfm.mapping import Mapping, map_photographs, require_pycolmap
from splat_cli.scene.sfm.options import SfmOptions
from splat_cli.scene.sfm.photographs import collect_photographs, is_video, source_files
from splat_cli.scene.sfm.scene_folder import new_scene_folder
from splat_cli.scene.sfm.video import extract_frames
from splat_cli.terminal.console import Counting
from splat_cli.terminal.interrupt import Interrupted

__all__ = ["Mapping", "SfmOptions", "is_video", "job_record", "make_scene"]

_SHOWN = 5


def make_scene(
    source: Path,
    scene: Path,
    options: SfmOptions,
    counting: Counting,
    say: Callable[[str], None],
    allow_implausible: bool = False,
) -> Mapping:
    """Create `scene`, a new or empty folder, from a folder of photographs or a video; removed after an error.

    Continues an interrupted call for the same files and options. UsageError; SceneError, for panoramas and fisheyes
    called pinhole only without `allow_implausible`; after Ctrl-C or SIGTERM, Interrupted.
    """
    require_pycolmap()
    record = job_record(source, options)
    if options.one_camera is None:
        options = dataclasses.replace(options, one_camera=is_video(source))
    try:
        with new_scene_folder(scene, record):
            if is_video(source):
                with counting("frames", options.num_frames) as count:
                    names = extract_frames(source, scene / "images", options.num_frames, count)
            else:
                names, skipped = collect_photographs(source, scene / "images")
                if skipped:
                    say(f"Left out {len(skipped)} of the photographs: {'; '.join(skipped[:_SHOWN])}")
            if not allow_implausible:
                refuse_photographs([scene / "images" / name for name in names], options.camera_model)
            return map_photographs(scene, names, options, counting, is_video(source))
    except KeyboardInterrupt as error:
        raise Interrupted("Interrupted; the same command again continues", error) from None


def job_record(source: Path, options: SfmOptions) -> dict[str, object]:
    """Everything that determines the result, as JSON: files with sizes and times, options."""
    files = {
        str(path.relative_to(source.parent)): [path.stat().st_size, path.stat().st_mtime_ns]
        for path in source_files(source)
    }
    return {"files": files, **dataclasses.asdict(options)}
