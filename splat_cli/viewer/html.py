"""Splats in 3D in a web page, with default cameras; works without a server or network.

The viewer is PlayCanvas's (scripts/viewer/bundle.py builds it). The splats are embedded as SOG: two thirds of the size
of a compressed PLY in gzip, at the same quality.
"""

import base64
import functools
import gzip
import html
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import numpy as np

from splat_cli.device import ceil_div
from splat_cli.errors import UsageError, escape_unprintable
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.editing.move import rotated
from splat_cli.gaussians.formats.sog import MAX_ENTRIES, write_sog
from splat_cli.io.files import replacing
from splat_cli.scene.trajectories.focus import Capture, focus_point, levelled, up_direction
from splat_cli.scene.view import View, evenly_spread

_MAX_ROLL = np.sin(np.radians(15))
_NEAR = 0.01
_NEAR_PIVOT = 0.4
_CENTRAL = 0.17
"""Half size of the central region, relative to width and height."""
_MAX_VIEWS = 64
_MAX_SPLATS = 20_000
"""Number of splats from which a median distance is estimated: a page computes one for each of its photographs."""
_CORE = (0.1, 0.9)
"""Quantiles of the splats to frame along each axis, without cameras."""


def upright_rotation(up: np.ndarray, start: View) -> np.ndarray:
    """The rotation [3, 3] from `up`, a unit vector, to -y, with the horizontal direction of `start` to z.

    A viewer's camera has no roll; a small roll of `start` is removed by tilting `up`.
    """
    right = start.w2c[0, :3]
    if abs(up @ right) < _MAX_ROLL:
        up = up - (up @ right) * right
        up /= np.linalg.norm(up)
    return levelled(start, up).w2c[:3, :3]


def pivot_share(views: Sequence[View]) -> float:
    """Distance from a camera to the orbit centre, relative to the distance of the surface in front of it.

    1 if cameras surround the scene. Otherwise smaller, so that an orbit does not move the camera behind walls that the
    photographs show only from the front.
    """
    if not views:
        return 1.0
    return 1.0 if Capture(views, focus_point(views), up_direction(views)).kind == "orbit" else _NEAR_PIVOT


def seen_points(means: np.ndarray, views: Sequence[View]) -> np.ndarray:
    """Points [P, 3] to frame: cameras and the surfaces in front of them; without cameras, corners of the core.

    Huge splats far away, such as sky, do not count.
    """
    if not views:
        return np.quantile(means, _CORE, axis=0).astype(np.float64)
    chosen = evenly_spread(views, _MAX_VIEWS)
    return np.array([point for view in chosen for point in (view.center, pivot_point(means, view))])


def pivot_point(means: np.ndarray, view: View) -> np.ndarray:
    """Point [3] on the camera's axis at the median distance of the splats [N, 3] around the axis."""
    view = view.pinhole
    means = means[:: ceil_div(len(means), _MAX_SPLATS) or 1]
    points = means @ view.w2c[:3, :3].T + view.w2c[:3, 3]
    depths = points[:, 2]
    reach = np.abs(points[:, :2]) * [view.fx / view.width, view.fy / view.height]
    ahead = depths > _NEAR
    central = ahead & (reach < _CENTRAL * np.maximum(depths, 0)[:, None]).all(axis=1)
    chosen = depths[central] if central.any() else depths[ahead]
    depth = float(np.median(chosen)) if len(chosen) else 1.0
    return view.center + depth * view.w2c[2, :3]


NUM_STOPS = 12
"""Cameras from all over the scene among which a page walks."""
MAX_TOUR = 200
"""Maximum number of cameras of a tour."""
_STATIC = Path(__file__).parent / "static"
_FLIPPED = np.diag([-1.0, -1.0, 1.0])
"""Rotation that the viewer applies on loading: files have y down, its world has y up."""
_UP = np.array([0.0, 1.0, 0.0])


@dataclass(frozen=True)
class Stop:
    """A camera among which the page walks.

    note: a line about it. photograph: as data URL, or "#ID" of an <img> of the page; compared with the splats.
    """

    view: View
    note: str = ""
    photograph: str | None = None


class Part(NamedTuple):
    """The part of a page that shows splats; num_splat_bytes: how many of its bytes hold the splats."""

    html: str
    num_splat_bytes: int


def write_html(
    path: Path,
    splats: SplatArrays,
    stops: Sequence[Stop],
    up: np.ndarray,
    background: tuple[float, float, float] = (0.0, 0.0, 0.0),
    title: str = "Splats",
    framed: np.ndarray | None = None,
    to_source: np.ndarray | None = None,
    is_tour: bool = False,
) -> None:
    """Write a page that shows the splats only; see `splats_in_3d`. UsageError without splats."""
    if len(splats) == 0:
        raise UsageError(f"{path} was not written: it would show no splats")
    page = Template(_static("page.html")).substitute(
        title=html.escape(escape_unprintable(title)),
        background=_css_color(background),
        scene=splats_in_3d(splats, stops, up, background, framed, to_source=to_source, is_tour=is_tour).html,
    )
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def splats_in_3d(
    splats: SplatArrays,
    stops: Sequence[Stop],
    up: np.ndarray,
    background: tuple[float, float, float] = (0.0, 0.0, 0.0),
    framed: np.ndarray | None = None,
    embedded: bool = False,
    max_entries: int = MAX_ENTRIES,
    to_source: np.ndarray | None = None,
    is_tour: bool = False,
) -> Part:
    """The part of a page, in its body, that shows the splats from the first stop and walks to the others.

    up: unit vector, float64 [3]. framed: points [P, 3] that the command "Frame Scene" shows, by default the splats'
    core. embedded: the page has other contents, which get keys and the wheel until a click into the scene. Antialiased
    splats are rendered with antialiasing. max_entries: see `write_sog`. to_source: matrix [4, 4] from the splats'
    coordinates to those in which measured points are given, by default the same. is_tour: the play button flies
    through the stops instead of around the first.
    """
    rotation = upright_rotation(up, stops[0].view)
    to_viewer = _FLIPPED @ rotation
    scene = {
        "background": background,
        "antialiased": splats.antialiased,
        "embedded": embedded,
        "isTour": is_tour and len(stops) > 1,
        "views": [_camera(stop, pivot_point(splats.means, stop.view), to_viewer) for stop in stops],
        "toSource": _to_source(to_viewer, to_source).tolist(),
        "frame": _box((seen_points(splats.means, ()) if framed is None else framed) @ to_viewer.T),
    }
    content = _base64(_sog(rotated(splats, rotation), max_entries))
    part = Template(_static("scene.html")).substitute(
        background=_css_color(background),
        licences=_static("LICENSES.txt"),
        style=_static("supersplat-viewer.css"),
        script=_script(),
        scene=json.dumps(scene).replace("<", "\\u003c"),
        splats=content,
    )
    return Part(part, len(content))


def _camera(stop: Stop, target: np.ndarray, to_viewer: np.ndarray) -> dict[str, Any]:
    """The camera in the viewer's coordinates, and the place of its picture at distance 1.

    width, height: half the size of the picture; shift: its middle, seen from the principal point, y down; roll:
    clockwise, in radians, since the viewer's camera has none; frame: half the size of the smallest view that shows it.
    """
    view = stop.view.pinhole
    right, _, forward = view.w2c[:3, :3] @ to_viewer.T
    level = np.cross(forward, _UP)
    level = level / np.linalg.norm(level) if np.linalg.norm(level) > 1e-6 else right
    roll = float(np.arctan2(right @ np.cross(forward, level), right @ level))
    low = np.array([-view.cx / view.fx, -view.cy / view.fy])
    high = np.array([(view.width - view.cx) / view.fx, (view.height - view.cy) / view.fy])
    corners = np.array([low, high, (low[0], high[1]), (high[0], low[1])])
    turn = np.array([[np.cos(roll), -np.sin(roll)], [np.sin(roll), np.cos(roll)]])
    return {
        "name": escape_unprintable(view.name),
        "note": stop.note,
        "photograph": stop.photograph,
        "position": (to_viewer @ view.center).tolist(),
        "target": (to_viewer @ target).tolist(),
        "width": view.width / view.fx / 2,
        "height": view.height / view.fy / 2,
        "shift": ((low + high) / 2).tolist(),
        "roll": roll,
        "frame": np.abs(corners @ turn.T).max(axis=0).tolist(),
    }


def _to_source(to_viewer: np.ndarray, to_source: np.ndarray | None) -> np.ndarray:
    """Matrix [4, 4] from the viewer's coordinates to those of the source."""
    from_viewer = np.eye(4)
    from_viewer[:3, :3] = to_viewer.T
    return from_viewer if to_source is None else to_source @ from_viewer


def _box(points: np.ndarray) -> dict[str, Any]:
    """Centre of the box around points [P, 3], and half the length of its diagonal."""
    low, high = points.min(axis=0), points.max(axis=0)
    return {"center": ((low + high) / 2).tolist(), "radius": max(float(np.linalg.norm(high - low)) / 2, 1e-3)}


def _css_color(color: tuple[float, float, float]) -> str:
    return "#" + "".join(f"{round(255 * value):02x}" for value in color)


def _sog(splats: SplatArrays, max_entries: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "splats.sog"
        write_sog(file, splats, max_entries)
        return file.read_bytes()


@functools.cache
def _script() -> str:
    """The viewer, compressed once: a report tries several numbers of splats."""
    return _base64(gzip.compress(_static("supersplat-viewer.js").encode(), mtime=0))


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _static(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")
