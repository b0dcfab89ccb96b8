"""`splat sfm`."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from splat_cli.cli.display import Output, display_options
from splat_cli.cli.options import PATH, frames_option, server_options, warn_of_idle
from splat_cli.cli.param_types import WholeRange

if TYPE_CHECKING:
    from splat_cli.scene.sfm import Placed
    from splat_cli.terminal.console import Display


@click.command(
    epilog="\b\nExample:\n  splat sfm photos -o scenes/garden\n  splat sfm walk.mp4 -o scenes/street --frames 200\n"
    "  splat sfm photos -o scenes/square --masks people"
)
@click.argument("photos", type=PATH)
@click.option("-o", "--out", type=PATH, required=True, metavar="SCENE", help="Folder of the scene, new or empty.")
@click.option(
    "--matcher",
    "--matching",
    type=click.Choice(["auto", "exhaustive", "sequential"]),
    default="auto",
    show_default=True,
    help="Pairs to match: all (exhaustive), or neighbours in time and key frames (sequential); auto: sequential for "
    "videos, for 60 or more numbered files without EXIF camera model, and for over 200 photographs.",
)
@click.option(
    "--camera-model",
    type=click.Choice(
        ["SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV", "OPENCV_FISHEYE", "EQUIRECTANGULAR"]
    ),
    help="COLMAP camera model.  [default: EQUIRECTANGULAR for 360-degree photographs, otherwise SIMPLE_RADIAL, or "
    "OPENCV for a camera of 20 or more photographs that it fits better]",
)
@click.option(
    "--one-camera/--any-cameras",
    default=None,
    help="Share one camera among all photographs of one size.  [default: for videos; otherwise among photographs with "
    "the same make, model, lens, focal length and size, and among those of one size without EXIF data if they fit as "
    "well]",
)
@click.option(
    "--masks",
    metavar="DIR",
    help="Folder of masks (NAME.png or NAME.jpg.png; features in black pixels are ignored); by default PHOTOS/masks; "
    "none: no masks.",
)
@click.option("--invert-masks", is_flag=True, help="Ignore the white pixels of masks instead of the black ones.")
@frames_option("Number of frames to extract from a video.")
@click.option(
    "--seed",
    type=WholeRange(0, 2**31 - 1),
    metavar="N",
    default=0,
    show_default=True,
    help="Random seed.",
)
@click.option(
    "--allow-implausible",
    is_flag=True,
    help="Estimate poses even if panoramas or fisheye circles have a camera model for other lenses.",
)
@click.option(
    "--viewer",
    is_flag=True,
    help="Show cameras in a browser as they are placed, until Ctrl-C; needs the extra `viewer`.",
)
@server_options
@display_options
def command(
    photos: Path,
    out: Path,
    matcher: str,
    camera_model: str | None,
    one_camera: bool | None,
    masks: str | None,
    invert_masks: bool,
    frames: int,
    seed: int,
    allow_implausible: bool,
    viewer: bool,
    host: str,
    port: int,
    display: "Display",
) -> Output:
    """Estimate the camera poses of PHOTOS with COLMAP.

    PHOTOS is a folder of photographs or a video, also of a 360-degree camera. Writes images, masks, sparse/0 and
    database.db to SCENE, for `splat train SCENE`; unregistered.txt lists photographs without a pose. GPS data of
    the photographs determine scale and level. After an interruption, run the same command again to continue. Needs
    the extra `sfm` (pip install 'splat-cli[sfm]') and no GPU; `sfm-cuda` uses one. `splat train PHOTOS` does the
    same with the default options.
    """
    from splat_cli.commands.photo_scene import refuse_run
    from splat_cli.scene import read_scene
    from splat_cli.scene.plausibility import signs_of_wrong_poses
    from splat_cli.scene.sfm import SfmOptions, find_masks, is_video, make_scene

    if not viewer:
        warn_of_idle(display, "without --viewer", "host", "port")
    refuse_run(photos)
    roots = [photos, photos.parent] if photos.name == "images" else [photos]
    mask_folder = find_masks(roots, masks)
    if not mask_folder:
        warn_of_idle(display, "without masks", "invert_masks")
    if not is_video(photos):
        warn_of_idle(display, "for photographs: it is for videos", "frames")
    options = SfmOptions(frames, matcher, camera_model, one_camera, seed, mask_folder, invert_masks)
    with _viewer(host, port, display) if viewer else nullcontext() as watch:
        found = make_scene(photos, out, options, display.counting, display.say, allow_implausible, watch)
        for sign in signs_of_wrong_poses(read_scene(out)):
            display.warn(f"the poses look wrong: {sign}")
        lines = [found.summary(), *found.advice()]
        if viewer:  # before the viewer waits for Ctrl-C
            for line in lines:
                display.say(line)
    return Output([*lines, f"Scene: {out}"], {"scene": out, **found.numbers()})


def _viewer(host: str, port: int, display: "Display") -> "AbstractContextManager[Callable[[Placed], None]]":
    from splat_cli.viewer.live import mapping_viewer

    return mapping_viewer(host, port, display)
