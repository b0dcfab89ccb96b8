"""Signs of wrong camera poses: in photographs, before poses are estimated, and in scenes, before training."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from PIL.ExifTags import IFD, Base

from splat_cli.device import ceil_div
from splat_cli.errors import SceneError
from splat_cli.io.image_files import header_exif, open_image
from splat_cli.scene.colmap import UNREGISTERED, find_model, has_model, other_groups, visible_points
from splat_cli.scene.colmap.model import SPHERE
from splat_cli.scene.extent import scene_extent, viewing_distance
from splat_cli.scene.lens import IMPOSSIBLE
from splat_cli.scene.view import Scene, View, evenly_spread

ALLOW = "--allow-implausible"
_SAMPLE, _SIDE = 4, 160  # number of photographs examined; their longer side in pixels
_MOST = 0.75  # fraction of these that must show a sign
_PANORAMA, _RATIO_TOLERANCE = 2.0, 0.005  # width over height
_SEAM = 0.4  # difference between left and right edge / difference between distant columns
_DARK = 24  # maximum level (of 255) outside of a fisheye's circle
_NUM_DIRECTIONS = 72
_MAX_IMPOSSIBLE = 0.03  # fraction of the photographs
_MIN_CAMERAS = 5
_MAX_FOCAL_SPREAD = 1.35  # 90th percentile / 10th percentile
_DOWNSCALED = re.compile(r"/images_\d+/")
_CROPS = (0.0, *(0.02 * step for step in range(1, 21)))  # shares of the width and height that are cut off
_MUCH_LESS = 0.4  # difference of the best crop, relative to that of the whole photograph
_MAX_OFF_CENTER = 0.3  # of the principal point, relative to the side
_MIN_FOCAL = 0.2  # focal length / longer side: 136 degrees
_MIN_VIEWS, _MIN_POINTS = 5, 50
_DOT = 0.02  # radius that holds 90% of the points / median distance of the cameras from their middle
_ONE_PLACE = 0.02  # extent of the cameras, relative to the viewing distance: 1 degree
_LINE = 0.002  # spread of the cameras across a line / spread along it
_MIN_OBSERVATIONS = 30  # points per photograph
_MIN_TRACK_LENGTH = 2.3
_MIN_SHARE = 0.2  # fraction of the photographs in a second group within a model
_MIN_OTHERS = 0.33  # in another model, since COLMAP also splits a walk around a house
_MIN_REGISTERED = 0.5
MIN_SHARED_POINTS = 30  # of two photographs: COLMAP needs this many to register one
_MAX_LINKS = 100  # common points of two groups
_MAX_VIEWS, _MAX_TRACKED = 1000, 20_000  # limits of the search for groups
_MAX_TURN_SHARE = 0.8  # fraction of the matches; a walk around a house has 0.56
_ONLY_TURNS, _NEAR = 0.95, 0.2  # the same if all have a pose; extent of the cameras, relative to the viewing distance
_TURN = "most photographs differ by a turn of the camera only (or show a flat wall): take them while moving"
_ANOTHER_MODEL = "estimate the poses with another camera model (`splat sfm --camera-model`)"
_CONNECT = "train a folder for each place, or add photographs that connect them"
_BEFORE_NUMBER = re.compile(r"\d+(?=\.\w+$)")


def refuse_photographs(paths: Sequence[Path], camera_model: str) -> None:
    """SceneError if the photographs are panoramas or show the circle of a fisheye, and `camera_model` has none."""
    if found := panoramas_or_fisheyes(paths, camera_model):
        raise SceneError(f"the photographs {found}; with {ALLOW}, poses are estimated anyway")


def refuse_scene(scene: Scene) -> None:
    """SceneError if the scene has signs of wrong camera poses."""
    if signs := signs_of_wrong_poses(scene):
        raise SceneError(f"the poses of {scene.root} look wrong: {'; '.join(signs)}; {ALLOW} trains anyway")


def signs_of_wrong_poses(scene: Scene) -> list[str]:
    """Signs with advice, one line each; empty for a plausible scene.

    Returns only the cause if it is known: panoramas, circles of a fisheye, a camera that only turned.
    """
    if cause := panoramas_or_fisheyes([view.path for view in scene.views if view.path and not _has_fisheye(view)]):
        return [f"the photographs {cause}"]
    checks = (_impossible_lenses, _focal_lengths, _principal_points, _crops, _places, _points, _tracks, _groups)
    signs = [sign for check in checks if (sign := check(scene)) is not None]
    num = len(scene.views) + _num_unregistered(scene.root)
    if len(scene.views) < _MIN_REGISTERED * num:
        signs.append(
            f"only {len(scene.views)} of {num} photographs have a pose: take sharp ones that overlap by two thirds, "
            "one place per folder"
        )
    share = _turn_share(scene.root / "database.db")
    has_turned = (signs and share > _MAX_TURN_SHARE) or (share > _ONLY_TURNS and _is_near(scene))
    return [_TURN] if has_turned else signs


def _is_near(scene: Scene) -> bool:
    """Whether cameras hardly moved: COLMAP may map a pure rotation as a flat wall with another focal length."""
    return scene_extent(scene.views) < _NEAR * viewing_distance(scene.views, scene.points)


def _num_unregistered(root: Path) -> int:
    """Number of photographs for which `splat sfm` found no pose."""
    path = root / UNREGISTERED
    return len(path.read_text(encoding="utf-8", errors="replace").splitlines()) if path.is_file() else 0


def _turn_share(database: Path) -> float:
    """Share of matches in pairs that differ by a rotation of the camera or show a plane; 0 without a database."""
    query = "SELECT sum(rows), sum(rows * (config IN (4, 5, 6))) FROM two_view_geometries"
    ((num, turned),) = _rows(database, query) or [(0, 0)]
    return turned / num if num else 0.0


def matched_photographs(root: Path) -> list[tuple[str, str]]:
    """Names of photographs that show the same, pair by pair, by the matches of `splat sfm`; empty without any."""
    query = (
        "SELECT one.name, other.name FROM two_view_geometries JOIN images one ON one.image_id = pair_id / 2147483647 "
        f"JOIN images other ON other.image_id = pair_id % 2147483647 WHERE rows >= {MIN_SHARED_POINTS}"
    )
    return _rows(root / "database.db", query)


def matched_features(root: Path) -> dict[tuple[int, int], np.ndarray]:
    """Pair of photographs, by COLMAP's numbers -> matches [n, 2] of `splat sfm`, as numbers of features."""
    query = "SELECT pair_id / 2147483647, pair_id % 2147483647, data FROM two_view_geometries WHERE rows > 0"
    rows = _rows(root / "database.db", query)
    return {(first, second): np.frombuffer(data, np.uint32).reshape(-1, 2) for first, second, data in rows}


def _rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    """Rows of COLMAP's database; none if it is missing, damaged, or from another program."""
    import sqlite3  # here, because colmap_worker.py must not load it

    try:
        with closing(sqlite3.connect(f"{database.resolve().as_uri()}?immutable=1", uri=True)) as opened:
            return opened.execute(query).fetchall()
    except sqlite3.Error:
        return []


def panoramas_or_fisheyes(paths: Sequence[Path], camera_model: str = "") -> str | None:
    """The sign that most of a few photographs show and `camera_model` does not explain, with advice, or None."""
    sample = _thumbnails(paths)
    if camera_model != SPHERE and _most(_is_panorama, sample):
        return (
            "are panoramas (2:1, all around), but their camera model is not: estimate poses by `splat sfm` without "
            "--camera-model"
        )
    if "FISHEYE" not in camera_model and _most(_has_circle, sample):
        return (
            "show the circle of a fisheye lens, but its camera model does not: estimate poses by `splat sfm "
            "--camera-model OPENCV_FISHEYE`"
        )
    return None


def are_panoramas(paths: Sequence[Path]) -> bool:
    """Whether most of a few photographs are equirectangular, 360 by 180 degrees."""
    return _most(_is_panorama, _thumbnails(paths))


def has_panorama_size(width: int, height: int) -> bool:
    """Whether a photograph is twice as wide as high."""
    return abs(width / height / _PANORAMA - 1) <= _RATIO_TOLERANCE


def _thumbnails(paths: Sequence[Path]) -> list[np.ndarray]:
    return [picture for path in evenly_spread(paths, _SAMPLE) if (picture := _thumbnail(path)) is not None]


def _most(has_sign: Callable[[np.ndarray], bool], pictures: Sequence[np.ndarray]) -> bool:
    return bool(pictures) and bool(np.mean([has_sign(picture) for picture in pictures]) >= _MOST)


def _thumbnail(path: Path) -> np.ndarray | None:
    """Luminance float64 [H, W] of about _SIDE pixels; None if the file cannot be decoded or has transparency."""
    try:
        with open_image(path) as image:
            if "A" in image.mode or "transparency" in image.info:
                return None
            image.draft("L", (2 * _SIDE, 2 * _SIDE))
            small = image.convert("L")
        ratio = small.width / small.height
        size = (_SIDE, max(1, round(_SIDE / ratio))) if ratio >= 1 else (max(1, round(_SIDE * ratio)), _SIDE)
        return np.asarray(small.resize(size), np.float64)
    except Exception:  # damaged: decoders raise exceptions of any type; reading the scene will name the file
        return None


def _is_panorama(picture: np.ndarray) -> bool:
    """Whether an equirectangular picture [H, W] continues across its left and right edge."""
    height, width = picture.shape
    if not has_panorama_size(width, height):
        return False
    seam = np.abs(picture[:, 0] - picture[:, -1]).mean()
    apart = np.abs(picture - np.roll(picture, width // 3, axis=1)).mean()
    return bool(seam < _SEAM * apart)


def _has_circle(picture: np.ndarray) -> bool:
    """Whether a picture [H, W] is black outside of a circle around its middle, but not just inside the circle."""
    height, width = picture.shape
    angles = np.linspace(0, 2 * np.pi, _NUM_DIRECTIONS, endpoint=False)
    radii = np.arange(0.3 * min(height, width), 0.5 * np.hypot(height, width))
    x = (width / 2 + np.outer(radii, np.cos(angles))).astype(int)
    y = (height / 2 + np.outer(radii, np.sin(angles))).astype(int)
    is_inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    is_bright = is_inside & (picture[y.clip(0, height - 1), x.clip(0, width - 1)] > _DARK)
    bright = is_bright.sum(axis=1) / np.maximum(is_inside.sum(axis=1), 1)  # fraction of each ring
    return any(
        bright[(radii > 0.8 * radius) & (radii < 0.95 * radius)].mean() > 0.85
        and bright[radii > 1.05 * radius].mean() < 0.05
        for radius in radii[(radii > 0.4 * min(height, width)) & (radii < 0.9 * radii[-1])]
    )


def _has_fisheye(view: View) -> bool:
    distortion = view.distortion or (view.lens.distortion if view.lens else None)
    return distortion is not None and getattr(distortion, "fisheye", True)


def _impossible_lenses(scene: Scene) -> str | None:
    """Cameras that distort more than any lens: their camera model is for another kind of lens."""
    impossible = [line for line in scene.skipped if IMPOSSIBLE in line]
    if len(impossible) <= _MAX_IMPOSSIBLE * len(scene.views):
        return None
    num = len(impossible) + len(scene.views)
    return f"{len(impossible)} of {num} photographs have a focal length or distortion {IMPOSSIBLE}; {_ANOTHER_MODEL}"


def _focal_lengths(scene: Scene) -> str | None:
    """Focal lengths that differ for one lens (photographs of one size, names of one series), or are too short."""
    cameras: dict[tuple[int, int, str], dict[int, View]] = defaultdict(dict)
    for view in scene.views:
        size = (view.lens.width, view.lens.height) if view.lens else (view.width, view.height)
        cameras[(*size, _BEFORE_NUMBER.sub("", view.name))][view.camera_id] = view
    for (width, height, _), views in cameras.items():
        focal = np.array([view.lens.fx if view.lens else view.fx for view in views.values()])
        if not any(map(_has_fisheye, views.values())) and np.median(focal) < _MIN_FOCAL * max(width, height):
            return f"the focal length is {np.median(focal):.0f} pixels at a width of {width}; {_ANOTHER_MODEL}"
        low, high = np.percentile(focal, (10, 90))
        if len(focal) >= _MIN_CAMERAS and high > _MAX_FOCAL_SPREAD * low and not _is_zoom(list(views.values())):
            return (
                f"the focal lengths of {len(focal)} cameras of {width}x{height} differ, {low:.0f} to {high:.0f} pixels "
                f"for most; {_ANOTHER_MODEL}, with --one-camera unless a zoom lens took them"
            )
    return None


def _principal_points(scene: Scene) -> str | None:
    """Principal points far from the middle: photographs of another size than their cameras, which state none."""
    lenses = [view.lens or view for view in scene.views]
    places = np.array([(lens.cx / lens.width, lens.cy / lens.height) for lens in lenses])
    x, y = np.median(places, axis=0)
    if max(abs(x - 0.5), abs(y - 0.5)) <= _MAX_OFF_CENTER:
        return None
    return (
        f"the principal points of the cameras are at {x:.0%} of the width and {y:.0%} of the height: use photographs "
        "of the size with which the poses were estimated"
    )


def _crops(scene: Scene) -> str | None:
    """Photographs of images_N that show the middle of those in images, where their cameras have another scale."""
    views = [view for view in scene.views if view.path and _DOWNSCALED.search(view.path.as_posix())]
    found = [_is_crop(view.path) for view in evenly_spread(views, _SAMPLE) if view.path]
    if not found or sum(found) < _MOST * len(found):
        return None
    return "the downscaled photographs are crops of those in images: make them again, or give --images images"


def _is_crop(path: Path) -> bool:
    """Whether a smaller part of the middle of the whole photograph looks more like the downscaled one."""
    whole = Path(_DOWNSCALED.sub("/images/", path.as_posix(), count=1))
    if not whole.is_file():
        return False
    small, large = _gray(path), _gray(whole)
    if small is None or large is None:
        return False
    differences = []
    for share in _CROPS:
        width, height = (round(side * (1 - share)) for side in large.size)
        left, top = (large.width - width) // 2, (large.height - height) // 2
        part = large.crop((left, top, left + width, top + height)).resize(small.size, Image.Resampling.BOX)
        one, other = (np.asarray(picture, np.float64) for picture in (small, part))
        one, other = one - one.mean(), other - other.mean()
        differences.append(1 - float((one * other).mean()) / max(float(one.std() * other.std()), 1.0))
    return min(differences) < _MUCH_LESS * differences[0]


def _gray(path: Path) -> Image.Image | None:
    try:
        with open_image(path) as image:
            image.draft("L", (4 * _SIDE, 4 * _SIDE))
            gray = image.convert("L")
    except Exception:  # damaged photographs are reported elsewhere
        return None
    gray.thumbnail((_SIDE, _SIDE), Image.Resampling.BOX)
    return gray


def _is_zoom(views: Sequence[View]) -> bool:
    """Whether the photographs' EXIF data name more than one focal length."""
    return len({_exif_focal_length(view.path) for view in views if view.path is not None} - {None}) > 1


def _exif_focal_length(path: Path) -> float | None:
    try:
        with open_image(path) as image:
            return float(header_exif(image).get_ifd(IFD.Exif)[Base.FocalLength])
    except Exception:  # no EXIF data, or damaged: Pillow's parser raises exceptions of any type
        return None


def _places(scene: Scene) -> str | None:
    """Cameras at one place, or exactly on a line."""
    if len(scene.views) < _MIN_VIEWS:
        return None
    centers = np.array([view.center for view in scene.views])
    along, across, _ = np.linalg.svd(centers - centers.mean(axis=0), compute_uv=False)
    distance = viewing_distance(scene.views, scene.points)
    if scene_extent(scene.views) < _ONE_PLACE * distance:
        return "the cameras are at one place: take photographs while moving, not while turning on the spot"
    if across < _LINE * along:
        return "the cameras are exactly on a line: take photographs at other heights, too, with more overlap"
    return None


def _points(scene: Scene) -> str | None:
    """A point cloud that is tiny compared with the cameras' distances."""
    if min(len(scene.points) - _MIN_POINTS, len(scene.views) - _MIN_VIEWS) < 0:
        return None
    radius = np.percentile(_distances(scene.points.astype(np.float64)), 90)
    spread = np.median(_distances(np.array([view.center for view in scene.views])))
    if radius < _DOT * spread:
        return (
            f"the points lie within {radius:.2g} units, the cameras {spread:.2g} apart; {_ANOTHER_MODEL}, or take "
            "photographs with more overlap"
        )
    return None


def _distances(places: np.ndarray) -> np.ndarray:
    return np.linalg.norm(places - np.median(places, axis=0), axis=1)


def _tracks(scene: Scene) -> str | None:
    """Few points per photograph, or points that few photographs show."""
    visible = list(_visible(scene).values())
    if not any(map(len, visible)):  # a model that was written without tracks
        return None
    per_photograph = float(np.median(list(map(len, visible))))
    length = sum(map(len, visible)) / len(np.unique(np.concatenate(visible)))
    if length >= _MIN_TRACK_LENGTH and per_photograph >= _MIN_OBSERVATIONS:
        return None
    return (
        f"a photograph shows {per_photograph:.0f} points, and {length:.1f} photographs show a point: take sharp ones "
        "that overlap by two thirds, or match all pairs (`splat sfm --matching exhaustive`)"
    )


def _groups(scene: Scene) -> str | None:
    """Photographs of two places: in two models, or in one model whose parts have few common points."""
    visible = _visible(scene)
    num = len(visible)
    others = other_groups(find_model(scene.root)) if num else {}
    for path, names in others.items():
        if len(names) >= max(_MIN_VIEWS, _MIN_OTHERS * (num + len(names))):
            return f"{len(names)} other photographs are in {path}, which has no place among these {num}: {_CONNECT}"
    some = evenly_spread(list(visible.values()), _MAX_VIEWS)
    if (size := _num_apart(some)) >= max(_MIN_VIEWS, _MIN_SHARE * len(some)):
        return f"{size} of {len(some)} photographs share hardly any point with the others: {_CONNECT}"
    return None


def _visible(scene: Scene) -> dict[str, np.ndarray]:
    """Name of a photograph -> ids of the points that it shows; empty without a binary COLMAP model."""
    return visible_points(find_model(scene.root)) if has_model(scene.root) else {}


def _num_apart(visible: list[np.ndarray]) -> int:
    """Size of the smaller of two groups of views that share few points, 0 if there is one group.

    visible: ids of the points that each view shows. The first group has the view with the most points, and all views
    that share points with a view of the group.
    """
    if not any(map(len, visible)):
        return 0
    points, index = np.unique(np.concatenate(visible), return_inverse=True)
    step = ceil_div(len(points), _MAX_TRACKED)
    view = np.repeat(np.arange(len(visible)), list(map(len, visible)))
    shows = np.zeros((len(visible), ceil_div(len(points), step)), np.float32)
    shows[view[index % step == 0], index[index % step == 0] // step] = 1
    shared = step * (shows @ shows.T)
    group = np.zeros(len(visible), bool)
    group[np.argmax(shared.diagonal())] = True
    while (grown := group | (shared[group].max(axis=0) >= MIN_SHARED_POINTS)).sum() > group.sum():
        group = grown
    is_apart = shared[np.ix_(group, ~group)].sum() < _MAX_LINKS
    return int(min(group.sum(), (~group).sum())) if is_apart else 0
