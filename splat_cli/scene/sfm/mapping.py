"""Structure from motion of a folder of photographs by COLMAP: inputs from EXIF data and names, and the result."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain, combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL.ExifTags import GPS, IFD, Base

from splat_cli.errors import SceneError, UsageError
from splat_cli.io.files import replacing
from splat_cli.io.image_files import header_exif, open_image
from splat_cli.scene.colmap import UNREGISTERED
from splat_cli.scene.colmap.model import SPHERE
from splat_cli.scene.dataset import sanitize_name
from splat_cli.scene.images.decode import decode_photo, image_size
from splat_cli.scene.plausibility import has_panorama_size
from splat_cli.scene.sfm.colmap_process import Placed, run_colmap
from splat_cli.scene.view import evenly_spread, natural_order
from splat_cli.terminal.console import Counting, first_of

DEFAULT_MODEL = "SIMPLE_RADIAL"


@dataclass(frozen=True)
class SfmOptions:
    """num_frames: extracted from a video. matcher: "exhaustive", "sequential" or "auto".

    camera_model: COLMAP's name; None: EQUIRECTANGULAR for panoramas (2:1, all around), otherwise DEFAULT_MODEL,
    or OPENCV for a camera of many photographs that it fits better.
    one_camera: whether all photographs of one size share a camera; by default, frames of a video and photographs with
    equal EXIF data do, and those of one size without EXIF data if they fit as well. masks: folder of masks; features
    are found in their white pixels, with invert_masks in their black ones.
    """

    num_frames: int = 200
    matcher: str = "auto"
    camera_model: str | None = None
    one_camera: bool | None = None
    seed: int = 0
    masks: Path | None = None
    invert_masks: bool = False


_LENS = (Base.LensMake, Base.LensModel, Base.FocalLength, Base.FocalLengthIn35mmFilm, Base.DigitalZoomRatio)
"""EXIF tags that distinguish the lenses of a phone, and settings of a zoom lens."""
EXHAUSTIVE_LIMIT = 200
"""Maximum number of photographs for which all pairs are matched by default."""
_MIN_SEQUENCE = 60
"""Minimum number of numbered files that may be the frames of a video; for fewer, all pairs take little time."""
_MIN_FRAMES = 25
_OVERLAP = 10
_FARTHEST = 512  # frames
_KEY_FRAMES = 5.0
_NUMBERED = re.compile(r"(.*?)(\d+)(\.\w+)")
_SEMI_MAJOR, _ECCENTRICITY2 = 6_378_137.0, 6.694379990141e-3  # ellipsoid of WGS 84
_BELOW_SEA = (1, b"\x01")
_FEW_REGISTERED = 0.8
_MAX_SPREAD = 0.02
_NAMED = 5


def camera_groups(images: Path, names: Sequence[str]) -> list[list[str]]:
    """Groups of two or more names with equal make, model, lens, focal length and size in pixels, sorted.

    Photographs without a camera model in their EXIF data are in no group.
    """
    groups = defaultdict(list)
    for name in sorted(names):
        key = _camera(images / name)
        if key is not None:
            groups[key].append(name)
    return [group for group in groups.values() if len(group) > 1]


def size_groups(images: Path, names: Sequence[str]) -> list[list[str]]:
    """Groups of two or more names with equal size in pixels, sorted, of photographs without a camera in EXIF data.

    Messengers remove EXIF data: such photographs may be of one camera, or of two phones, or of a zoom lens.
    """
    unknown = [name for name in names if _camera(images / name) is None]
    return [group for group in _by_size(images, unknown).values() if len(group) > 1]


def _by_size(images: Path, names: Sequence[str]) -> dict[tuple[int, int], list[str]]:
    """Names of photographs, sorted, by their size in pixels; without damaged ones."""
    groups = defaultdict(list)
    for name in sorted(names):
        with suppress(ValueError):
            groups[image_size(images / name)].append(name)
    return groups


def _spheres(images: Path, names: Sequence[str]) -> list[list[str]]:
    """Photographs that are twice as wide as high, by size; others in the same folder are from another camera."""
    return [group for size, group in _by_size(images, names).items() if has_panorama_size(*size)]


def num_camera_models(paths: Sequence[Path]) -> int:
    """Number of different makes and models of cameras in the EXIF data of photographs."""
    return len({camera[:2] for path in paths if (camera := _camera(path)) is not None})


def _camera(path: Path) -> tuple[str, ...] | None:
    """Key of the camera that took a photograph; None if unknown."""
    try:
        with open_image(path) as image:
            size, exif = image.size, header_exif(image)
        details = exif.get_ifd(IFD.Exif)
    except Exception:  # damaged EXIF data: exceptions of any type
        return None
    model = _text(exif.get(Base.Model))
    if not model:
        return None
    return (_text(exif.get(Base.Make)), model, *(_text(details.get(tag)) for tag in _LENS), *map(str, size))


def _text(value: object) -> str:
    return str(value or "").strip("\0 ")


def choose_matcher(matcher: str, names: Sequence[str], is_video: bool, have_camera: bool) -> str:
    """ "exhaustive" or "sequential" for a `matcher` that is one of these or "auto".

    "auto": sequential for videos and folders of their frames, and above EXHAUSTIVE_LIMIT photographs. have_camera:
    whether photographs name a camera in their EXIF data, which frames of a video lack.
    """
    if matcher != "auto":
        return matcher
    is_sequence = is_video or (len(names) >= _MIN_SEQUENCE and not have_camera and are_frames(names))
    return "sequential" if (is_sequence and len(names) > _MIN_FRAMES) or len(names) > EXHAUSTIVE_LIMIT else "exhaustive"


def are_frames(names: Sequence[str]) -> bool:
    """Whether names differ only in a number that rises in even steps."""
    found = [_NUMBERED.fullmatch(name) for name in names]
    parts = [match.groups() for match in found if match]
    if len(parts) < len(names) or len({(head, end.lower()) for head, _, end in parts}) > 1:
        return False
    numbers = sorted(int(number) for _, number, _ in parts)
    return len({after - before for before, after in pairwise(numbers)} - {0}) == 1


def sequential_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of each frame with the next 10 and with those 16, 32, ... 512 later, and all pairs of key frames.

    COLMAP's sequential matcher uses the former. Key frames, evenly spread, close loops where a camera returns to an
    earlier place; COLMAP needs a vocabulary tree for this. Frames are sorted by number, with or without leading zeros.
    """
    ordered = sorted(names, key=natural_order)
    offsets = [*range(1, _OVERLAP + 1), *(2**k for k in range(4, _FARTHEST.bit_length()))]
    near = {(i, i + offset) for offset in offsets for i in range(len(ordered) - offset)}
    keys = evenly_spread(range(len(ordered)), math.isqrt(int(_KEY_FRAMES * len(ordered))))
    return [(ordered[i], ordered[j]) for i, j in sorted(near.union(combinations(keys, 2)))]


def gps_locations(images: Path, names: Sequence[str]) -> dict[str, tuple[float, float, float]]:
    """Name -> (east, north, up) in metres from the mean location, of the photographs with GPS data.

    Without altitudes, all are at the same height.
    """
    places = {name: place for name in names if (place := _place(images / name)) is not None}
    if not places:
        return {}
    values = np.array(list(places.values()))
    known = np.isfinite(values[:, 2])
    values[~known, 2] = np.median(values[known, 2]) if known.any() else 0.0
    local = _east_north_up(values)
    return {name: (float(e), float(n), float(u)) for name, (e, n, u) in zip(places, local, strict=True)}


def _place(path: Path) -> tuple[float, float, float] | None:
    """(latitude, longitude) in degrees and altitude in metres, NaN if missing; None without GPS."""
    try:
        with open_image(path) as image:
            tags = header_exif(image).get_ifd(IFD.GPSInfo)
        latitude = _degrees(tags[GPS.GPSLatitude], tags.get(GPS.GPSLatitudeRef), "S")
        longitude = _degrees(tags[GPS.GPSLongitude], tags.get(GPS.GPSLongitudeRef), "W")
        altitude = float(tags.get(GPS.GPSAltitude, math.nan))
        if tags.get(GPS.GPSAltitudeRef) in _BELOW_SEA:
            altitude = -altitude
    except Exception:  # no GPS data, or damaged: Pillow's parser raises exceptions of any type
        return None
    is_somewhere = abs(latitude) <= 90 and abs(longitude) <= 180 and (latitude, longitude) != (0, 0)
    return (latitude, longitude, altitude if abs(altitude) < 1e5 else math.nan) if is_somewhere else None


def _degrees(parts: Sequence[float], reference: object, negative: str) -> float:
    """Decimal degrees from degrees, minutes and seconds; negative if `reference` is `negative`."""
    degrees, minutes, seconds = (float(part) for part in parts)
    value = degrees + minutes / 60 + seconds / 3600
    return -value if str(reference).strip("\0 ").upper() == negative else value


def _east_north_up(places: np.ndarray) -> np.ndarray:
    """East, north, up [N, 3] in metres from the mean place, of latitudes, longitudes and altitudes [N, 3].

    The longitude of the middle is that of the median in space: 179.9 and -179.9 degrees are neighbours.
    """
    found = _geocentric(places)
    x, y, _ = np.median(found, axis=0)
    latitude, longitude = math.radians(np.median(places[:, 0])), math.atan2(y, x)
    (sin_a, cos_a), (sin_o, cos_o) = ((math.sin(angle), math.cos(angle)) for angle in (latitude, longitude))
    east, up = (-sin_o, cos_o, 0.0), (cos_a * cos_o, cos_a * sin_o, sin_a)
    axes = np.array([east, np.cross(up, east), up])
    return (found - found.mean(axis=0)) @ axes.T


def _geocentric(places: np.ndarray) -> np.ndarray:
    """Geocentric coordinates (ECEF, WGS 84) [N, 3] in metres of latitudes, longitudes and altitudes [N, 3]."""
    latitude, longitude, altitude = np.radians(places[:, 0]), np.radians(places[:, 1]), places[:, 2]
    radius = _SEMI_MAJOR / np.sqrt(1 - _ECCENTRICITY2 * np.sin(latitude) ** 2)
    across = (radius + altitude) * np.cos(latitude)
    z = (radius * (1 - _ECCENTRICITY2) + altitude) * np.sin(latitude)
    return np.stack([across * np.cos(longitude), across * np.sin(longitude), z], axis=1)


@dataclass(frozen=True)
class Mapping:
    """Result of structure from motion: photographs registered, points, mean error in pixels, mean track length.

    unregistered: names of the photographs that were not registered; the file UNREGISTERED in `scene` lists them.
    gps_error: median in metres, if scale and orientation are from GPS data, else None. matcher: the one used,
    "exhaustive" or "sequential". spread: how far a camera is from its place by the other half of the points (median),
    relative to the scene's size; 0 if that is unknown. turns: name -> rotation from world to camera [3, 3] of small
    copies, if few of them have a pose, by pairs alone.
    """

    num_photographs: int
    unregistered: list[str]
    num_points: int
    error: float
    track_length: float
    num_models: int
    gps_error: float | None = None
    matcher: str = "exhaustive"
    scene: Path = Path()
    spread: float = 0.0
    turns: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def num_registered(self) -> int:
        """Number of photographs that were registered."""
        return self.num_photographs - len(self.unregistered)

    def summary(self) -> str:
        """The statistics in one line."""
        return (
            f"{self.num_registered} of {self.num_photographs} photographs registered, {self.num_points:,} points, "
            f"mean error {self.error:.2f} pixels, seen in {self.track_length:.1f} photographs each"
            + ("" if self.gps_error is None else f"; metres and level from GPS, within {self.gps_error:.1f} m")
        )

    def numbers(self) -> dict[str, object]:
        """The statistics as in --json."""
        return {
            "photographs": self.num_photographs,
            "registered": self.num_registered,
            "points": self.num_points,
            "error": self.error,
            "track_length": self.track_length,
            "gps_error": self.gps_error,
            "unregistered": self.unregistered,
        }

    def advice(self) -> list[str]:
        """Lines on uncertain poses and on photographs that were not registered, with advice if they are many."""
        uncertain = why_uncertain(self.spread)
        lines = [f"The poses are uncertain: {uncertain}"] if uncertain else []
        return [*lines, *self._unregistered()]

    def _unregistered(self) -> list[str]:
        if not self.unregistered:
            return []
        names = first_of([sanitize_name(name) for name in self.unregistered], _NAMED, ", ")
        named = f"Not registered: {names} (listed in {self.scene / UNREGISTERED})"
        if self.num_registered >= _FEW_REGISTERED * self.num_photographs:
            return [named]
        lines = [f"Only {self.num_registered} of {self.num_photographs} photographs were registered. What helps:"]
        if self.num_models > 1:
            lines.append(
                f"- the photographs fell into {self.num_models} groups: add some that show parts of two groups"
            )
        lines += [
            "- photographs that overlap by two thirds, taken while moving, not while turning on the spot",
            "- sharp photographs of one exposure; little glass, water or sky",
        ]
        if self.matcher == "sequential":
            lines.append("- splat sfm --matcher exhaustive, which takes longer, if they are in no order")
        return [*lines, named]


def why_uncertain(spread: float) -> str | None:
    """What is wrong with poses of a large `Mapping.spread`, and what helps; None if it is small."""
    if spread <= _MAX_SPREAD:
        return None
    return (
        f"one half of the points gives other poses than the other half (by {min(spread, 1):.0%} of the scene's size); "
        "take more photographs that overlap by two thirds, moving between them"
    )


def map_photographs(
    scene: Path,
    names: list[str],
    options: SfmOptions,
    counting: Counting,
    is_video: bool = False,
    pairs: Sequence[tuple[str, str]] | None = None,
    are_enlarged: bool = False,
    watch: Callable[[Placed], None] | None = None,
) -> Mapping:
    """Create scene/sparse/0 from scene/images; keeps scene/database.db, and continues with an existing one.

    is_video: whether the photographs are the frames of a video. pairs: pairs of small copies to match; by default the
    matcher chooses. are_enlarged: whether features are searched in enlarged copies. watch: see `run_colmap`. UsageError
    if pycolmap is missing, SceneError if no two photographs match.
    """
    require_pycolmap()
    job = _job(scene, names, options, is_video, pairs) | {"are_enlarged": are_enlarged}
    found = run_colmap(job, counting, watch)
    if not found["models"]:
        raise SceneError(
            f"no two of the {len(names)} photographs fit together: {_why_none_fit(scene / 'images', names)}"
        )
    if found["unregistered"]:
        with replacing(scene / UNREGISTERED) as temporary:
            lines = "".join(f"{sanitize_name(name)}\n" for name in found["unregistered"])
            temporary.write_text(lines, encoding="utf-8")
    return Mapping(
        num_photographs=len(names),
        unregistered=found["unregistered"],
        num_points=found["points"],
        error=found["error"],
        track_length=found["track_length"],
        num_models=found["models"],
        gps_error=found["gps_error"],
        matcher=job["matcher"],
        scene=scene,
        spread=found["spread"],
        turns={name: np.array(turn) for name, turn in found["turns"].items()},
    )


def _job(
    scene: Path, names: list[str], options: SfmOptions, is_video: bool, pairs: Sequence[tuple[str, str]] | None
) -> dict[str, Any]:
    """The job of colmap_worker.py, as JSON: which photographs share a camera, which pairs to match, places by GPS."""
    images, masks = scene / "images", scene / "masks"
    spheres = _spheres(images, names) if options.camera_model == SPHERE else []
    others = [name for name in names if name not in set(chain(*spheres))]
    by_exif = [] if is_video else camera_groups(images, others)
    matcher = choose_matcher(options.matcher, names, is_video, bool(by_exif))
    return {
        "scene": str(scene.absolute()),
        "names": names,
        "groups": list(_by_size(images, others).values()) if options.one_camera else by_exif,
        "sizes": size_groups(images, others) if options.one_camera is None else [],
        "masks": str(masks.absolute()) if masks.is_dir() else None,
        "spheres": spheres,
        "camera_model": DEFAULT_MODEL if options.camera_model in (None, SPHERE) else options.camera_model,
        "refines_lens": options.camera_model is None and pairs is None,
        "locations": gps_locations(images, names),
        "seed": options.seed,
        "matcher": matcher,
        "pairs": pairs or (sequential_pairs(names) if matcher == "sequential" else None),
        "are_small": pairs is not None,
    }


def _why_none_fit(images: Path, names: list[str]) -> str:
    """Error message if no photographs match: the damaged ones, if any, else advice on photographs."""
    damaged = []
    for name in names:
        try:
            decode_photo(images / name, image_size(images / name), background=(0, 0, 0))
        except ValueError as reason:
            damaged.append(f"{name} {reason}")
    if damaged:
        return f"{len(damaged)} are damaged: copy them again; {damaged[0]}"
    return "take more that overlap by two thirds, moving between them, and keep them sharp"


def require_pycolmap() -> None:
    """UsageError if it is not installed; it is not imported into this process (see colmap_worker.py)."""
    if find_spec("pycolmap") is None:
        raise UsageError("estimating camera poses needs pycolmap, which is not installed: pip install 'splat-cli[sfm]'")
