"""`splat check`: what is wrong with photographs or a scene, and where more photographs would help."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from splat_cli.commands.photo_checks import (
    MANY_CAMERAS,
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
from splat_cli.scene.coverage import Gap, gaps, helpful_places, largest_chain, shared_points
from splat_cli.scene.lens.distortion import Equirectangular
from splat_cli.scene.photograph import find_pairs
from splat_cli.scene.plausibility import (
    MIN_SHARED_POINTS,
    matched_features,
    matched_photographs,
    signs_of_wrong_poses,
)
from splat_cli.scene.read import read_scene
from splat_cli.scene.sfm import is_video, rough_name, rough_scene
from splat_cli.scene.sfm.colmap_worker import FEW_INLIERS
from splat_cli.scene.sfm.mapping import num_camera_models, why_uncertain
from splat_cli.scene.sfm.photographs import ignored_colors, source_files
from splat_cli.scene.sfm.video import extract_frames
from splat_cli.scene.view import Scene, View
from splat_cli.scene.zipped import is_zipped_scene, unzipped_scene
from splat_cli.terminal.console import Counting

_ONE_SIDE, _HOLE, _OUTWARD_HOLE = 145.0, 45.0, 90.0  # degrees without a camera
_HOLE_SHARE, _MIN_HOLE = 0.25, 25.0  # of the arc of a capture from one side; degrees
_NUM_PLACES = 5
_MAX_PLACED, _MIN_PLACED, _FEW_PLACED = 500, 0.8, 1 / 3  # photographs; fractions of them
_MIN_SECOND = 0.2  # fraction of the photographs in a group of their own


def check(source: Path, num_frames: int, counting: Counting, page: Path | None = None) -> Checked:
    """Check photographs, a video or a scene, and write the page. UsageError, SceneError."""
    refuse_run(source)
    if not source.exists():
        raise UsageError(f"{source} does not exist; name a folder of photographs, a video or a scene")
    if is_video(source):
        with tempfile.TemporaryDirectory() as folder:
            said = list[str]()
            with counting("frames", num_frames) as count:
                extract_frames(source, Path(folder), num_frames, count, said.append)
            checked = _check_without_poses(source, source_files(Path(folder)), counting)
            return _finished(checked, said, page)
    if is_zipped_scene(source):
        with unzipped_scene(source) as scene:
            return _finished(dataclasses.replace(_check_scene(scene, counting), source=source), [], page)
    if not lacks_poses(source):
        return _finished(_check_scene(source, counting), [], page)
    photographs = source / "images" if (source / "images").is_dir() else source
    return _finished(_check_without_poses(source, source_files(photographs), counting), [], page)


def _finished(checked: Checked, said: Sequence[str], page: Path | None) -> Checked:
    """With findings on colours that are not applied, said of a video or found in photographs; writes the page."""
    paths = [one.path for one in checked.photographs]
    colors = [Finding("colours", False, line) for line in [*said, *ignored_colors(paths, len(paths))]]
    checked = dataclasses.replace(checked, findings=[*checked.findings, *colors])
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
    finding = _unknown(0, num)
    for are_enlarged in (False, True) if checked.pairs and num <= _MAX_PLACED else ():
        rough = _rough(checked, are_enlarged, counting)
        if rough and len(rough.scene.views) >= _MIN_PLACED * num and not why_uncertain(rough.spread):
            places = helpful_places(rough.scene, _NUM_PLACES)
            findings = [*checked.findings, _rough_directions(rough.scene.views, rough.matched)]
            return dataclasses.replace(checked, findings=findings, scene=rough.scene, places=places)
        finding = _groups(len(rough.scene.views), rough.num_apart, num, rough.spread) if rough else _groups(0, 0, num)
        if rough and finding.ok and len(rough.turned) >= _MIN_PLACED * num:
            finding = _rough_directions(rough.turned, rough.matched)
        if rough and finding.ok and checked.num_cameras < MANY_CAMERAS and rough.num_chained < _MIN_PLACED * num:
            finding = _broken_chain(rough.num_chained, num)
    return dataclasses.replace(checked, findings=[*checked.findings, finding])


@dataclass(frozen=True)
class _Rough:
    """Rough poses. num_apart: photographs in the largest other group that no match connects with those of the scene;
    matched: pairs of photographs that show the same; spread: see `Mapping`; turned: views all at one place, with
    rotations by pairs alone, if few photographs have a pose; num_chained: see `largest_chain`."""

    scene: Scene
    num_apart: int
    matched: list[tuple[str, str]]
    spread: float = 0.0
    turned: list[View] = field(default_factory=list)
    num_chained: int = 0


def _rough(checked: Checked, are_enlarged: bool, counting: Counting) -> _Rough | None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [one.path for one in checked.photographs]
        found = rough_scene(paths, checked.pairs, Path(folder), counting, are_enlarged)
        if found is None:
            return None
        scene, mapping = found
        groups = list(other_groups(find_model(scene.root)).values())
        matched = matched_photographs(scene.root)
        num_chained = largest_chain(matched_features(scene.root), FEW_INLIERS)
    of_copy = {rough_name(number): name for number, name in enumerate(checked.names)}
    views = [dataclasses.replace(view, name=of_copy[view.name]) for view in scene.views]
    num_apart = _num_apart({view.name for view in scene.views}, groups, matched)
    pairs = [(of_copy[one], of_copy[other]) for one, other in matched]
    turned = [_turned(views[0], of_copy[name], turn) for name, turn in mapping.turns.items()]
    return _Rough(dataclasses.replace(scene, views=views), num_apart, pairs, mapping.spread, turned, num_chained)


def _turned(view: View, name: str, rotation: np.ndarray) -> View:
    """The view `name` with the lens of another one, at the origin."""
    w2c = np.eye(4)
    w2c[:3, :3] = rotation
    return dataclasses.replace(view, name=name, path=None, w2c=w2c)


def _num_apart(placed: set[str], groups: Sequence[set[str]], matched: Sequence[tuple[str, str]]) -> int:
    """Size of the largest group without a match with `placed` or with groups that have one.

    Matches between groups show that mapping failed, not that photographs are missing.
    """
    left, grown = list(groups), True
    while grown:
        near = {other for pair in matched for one, other in (pair, pair[::-1]) if one in placed}
        placed = placed.union(*(group for group in left if group & near))
        grown = len(left) > len(left := [group for group in left if not group & near])
    return max(map(len, left), default=0)


def _rough_directions(views: Sequence[View], matched: Sequence[tuple[str, str]]) -> Finding:
    """Directions by rough poses. If matches contradict them, it may not be a gap: there are too few photographs."""
    finding = directions(gaps(views))
    ways = {view.name: view.w2c[2, :3] for view in views if not isinstance(view.distortion, Equirectangular)}
    opposite = [pair for pair in matched if ways.keys() >= set(pair) and ways[pair[0]] @ ways[pair[1]] < 0]
    if finding.ok or not opposite:
        return finding
    text = f"{' and '.join(opposite[0])} show the same, but by rough poses they look over 90 degrees apart"
    advice = "something looks alike from several sides: take more that overlap by two thirds"
    return Finding("directions", False, f"{text}; {advice}", opposite[0])


def _groups(placed: int, num_apart: int, num: int, spread: float = 0.0) -> Finding:
    """Directions of `num` photographs if only `placed` have rough poses, and `num_apart` others among themselves.

    spread: of the rough poses, which are only then of use.
    """
    if num_apart >= _MIN_SECOND * num:
        text = (
            f"{placed} and {num_apart} of {num} fit together only among themselves: add some that connect both groups"
        )
    elif placed < _FEW_PLACED * num:
        text = f"only {placed} of {num} fit together: take more that overlap by two thirds"
    elif uncertain := why_uncertain(spread):
        text = uncertain
    else:
        return _unknown(placed, num)
    return Finding("directions", False, text)


def _broken_chain(num_chained: int, num: int) -> Finding:
    """Too few photographs in common: not, as far away from a distant view, too little movement between them."""
    text = (
        f"only {num_chained} of {num} can be placed one after another (each must show {FEW_INLIERS} points that two "
        "others show): take more that overlap by two thirds"
    )
    return Finding("directions", False, text)


def _unknown(placed: int, num: int) -> Finding:
    text = f"unknown, {placed} of {num} have a rough pose: run `splat sfm`, then check its scene"
    return Finding("directions", True, text, is_known=False)


def _check_scene(source: Path, counting: Counting) -> Checked:
    scene = read_scene(source)
    name_of = {view.path: view.name for view in scene.views if view.path is not None}
    photographs = measured(source, list(name_of), counting)
    pairs = find_pairs(photographs, any(isinstance(view.distortion, Equirectangular) for view in scene.views))
    names = [name_of[one.path] for one in photographs]
    num_cameras = num_camera_models([one.path for one in photographs])
    findings = [*undecoded(photographs, name_of), *look(photographs, pairs, names, num_cameras)]
    shared = shared_points(scene)
    if shared is not None:
        findings.append(overlap([view.name for view in scene.views], shared >= MIN_SHARED_POINTS, num_cameras))
    else:
        findings.append(links_of_photographs(names, pairs, num_cameras))
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
