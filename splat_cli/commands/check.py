"""`splat check`: what is wrong with photographs or a scene, and where more photographs would help."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from splat_cli.commands.photo_checks import (
    Checked,
    Finding,
    check_photographs,
    links_of_photographs,
    look,
    measured,
    overlap,
    training_seconds,
    undecoded,
)
from splat_cli.commands.photo_scene import lacks_poses, refuse_run
from splat_cli.errors import UsageError
from splat_cli.io.files import replacing
from splat_cli.report.check_page import check_page
from splat_cli.scene.colmap import find_model, other_groups
from splat_cli.scene.coverage import Gap, gaps, helpful_places, shared_points
from splat_cli.scene.lens.distortion import Equirectangular
from splat_cli.scene.photograph import find_pairs
from splat_cli.scene.plausibility import MIN_SHARED_POINTS, signs_of_wrong_poses
from splat_cli.scene.read import read_scene
from splat_cli.scene.sfm import is_video, rough_scene
from splat_cli.scene.sfm.photographs import source_files
from splat_cli.scene.sfm.video import extract_frames
from splat_cli.scene.view import Scene
from splat_cli.scene.zipped import is_zipped_scene, unzipped_scene
from splat_cli.terminal.console import Counting

_ONE_SIDE, _HOLE, _OUTWARD_HOLE = 145.0, 45.0, 90.0  # degrees without a camera
_HOLE_SHARE, _MIN_HOLE = 0.25, 25.0  # of the arc of a capture from one side; degrees
_NUM_PLACES = 5
_MOST_PLACED, _MIN_PLACED = 500, 0.8  # photographs; fraction of them
_MIN_SECOND = 0.2  # fraction of the photographs in a group of their own


def check(source: Path, num_frames: int, counting: Counting, page: Path | None = None) -> Checked:
    """Check photographs, a video or a scene, and write the page. UsageError, SceneError."""
    refuse_run(source)
    if not source.exists():
        raise UsageError(f"{source} does not exist; name a folder of photographs, a video or a scene")
    if is_video(source):
        with tempfile.TemporaryDirectory() as folder:
            with counting("frames", num_frames) as count:
                extract_frames(source, Path(folder), num_frames, count)
            return _written(_check_without_poses(source, source_files(Path(folder)), counting), page)
    if is_zipped_scene(source):
        with unzipped_scene(source) as scene:
            return _written(dataclasses.replace(_check_scene(scene, counting), source=source), page)
    if not lacks_poses(source):
        return _written(_check_scene(source, counting), page)
    photographs = source / "images" if (source / "images").is_dir() else source
    return _written(_check_without_poses(source, source_files(photographs), counting), page)


def _written(checked: Checked, page: Path | None) -> Checked:
    if page is not None:
        files = dict(zip(checked.names, (one.path for one in checked.photographs), strict=True))
        name = checked.source.resolve().name
        html = check_page(name, checked.findings, checked.duration, files, checked.scene, checked.places)
        with replacing(page) as temporary:
            temporary.write_text(html, encoding="utf-8", errors="backslashreplace")
    return checked


def _check_without_poses(source: Path, paths: Sequence[Path], counting: Counting) -> Checked:
    """Check photographs, and their directions by rough poses, from more features if few photographs get one."""
    checked = check_photographs(source, paths, counting)
    num = len(checked.names)
    finding = _groups(0, 0, num)
    for are_enlarged in (False, True) if checked.pairs and num <= _MOST_PLACED else ():
        scene, second = _rough(checked, are_enlarged, counting)
        placed = 0 if scene is None else len(scene.views)
        if scene is not None and placed >= _MIN_PLACED * num:
            return _with_directions(checked, scene, finding)
        if not are_enlarged:
            finding = _groups(placed, second, num)
    return dataclasses.replace(checked, findings=[*checked.findings, finding])


def _rough(checked: Checked, are_enlarged: bool, counting: Counting) -> tuple[Scene | None, int]:
    """Rough poses, and the number of photographs in the second group."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [one.path for one in checked.photographs]
        scene = rough_scene(paths, checked.pairs, Path(folder), counting, are_enlarged)
        return scene, max(map(len, other_groups(find_model(scene.root)).values()), default=0) if scene else 0


def _with_directions(checked: Checked, scene: Scene, groups: Finding) -> Checked:
    """With the directions of rough poses. groups: the finding without them, an alarm that only a closed circle ends.

    Features that connect two groups after all say nothing about photographs that are missing on the other side.
    """
    views = [dataclasses.replace(view, name=checked.names[int(view.name)]) for view in scene.views]
    scene, found = dataclasses.replace(scene, views=views), gaps(views)
    finding = directions(found)
    if finding.ok and found[0].degrees >= _ONE_SIDE and not groups.ok:
        finding = groups
    findings = [*checked.findings, finding]
    return dataclasses.replace(checked, findings=findings, scene=scene, places=helpful_places(scene, _NUM_PLACES))


def _groups(placed: int, second: int, num: int) -> Finding:
    """Directions of `num` photographs if only `placed` have rough poses, and `second` others among themselves."""
    if second >= _MIN_SECOND * num:
        text = f"{placed} and {second} of {num} fit together only among themselves: add some that connect both groups"
        return Finding("directions", False, text)
    text = f"unknown, {placed} of {num} have a rough pose: run `splat sfm`, then check its scene"
    return Finding("directions", True, text)


def _check_scene(source: Path, counting: Counting) -> Checked:
    scene = read_scene(source)
    name_of = {view.path: view.name for view in scene.views if view.path is not None}
    photographs = measured(source, list(name_of), counting)
    pairs = find_pairs(photographs, any(isinstance(view.distortion, Equirectangular) for view in scene.views))
    names = [name_of[one.path] for one in photographs]
    findings = [*undecoded(photographs, name_of), *look(photographs, pairs, names)]
    shared = shared_points(scene)
    if shared is not None:
        findings.append(overlap([view.name for view in scene.views], shared >= MIN_SHARED_POINTS))
    else:
        findings.append(links_of_photographs(names, pairs))
    findings.append(directions(gaps(scene.views)))
    findings += [Finding("poses", False, sign) for sign in signs_of_wrong_poses(scene)]
    pixels = float(np.mean([view.width * view.height for view in scene.views]))
    places = helpful_places(scene, _NUM_PLACES)
    seconds = training_seconds(len(scene.views), pixels)
    return Checked(source, photographs, names, findings, scene, places, None, seconds)


def directions(found: Sequence[Gap]) -> Finding:
    """Gaps around the scene, or in the directions that cameras inside of it look at."""
    limit = _HOLE if found[0].is_ring else _OUTWARD_HOLE
    is_open = found[0].degrees >= _ONE_SIDE
    arc = 360 - found[0].degrees if is_open else 360.0
    if is_open:
        limit = min(limit, max(_HOLE_SHARE * arc, _MIN_HOLE))
    holes = [gap for gap in found[is_open:] if gap.degrees >= limit]
    if not holes:
        return Finding(
            "directions",
            True,
            f"evenly from {arc:.0f} of 360 degrees around the scene" if is_open else "from all around",
        )
    hole = holes[0]
    what = "no photograph from" if hole.is_ring else "no photograph looks at"
    text = f"{what} {hole.degrees:.0f} of 360 degrees, between {hole.first} and {hole.second}"
    return Finding("directions", False, text, (hole.first, hole.second))
