"""Self-contained HTML page with splats and a viewer; works without a server or network.

The viewer is PlayCanvas's (scripts/viewer/bundle.py builds it). The splats are embedded as a compressed PLY in gzip,
which the browser unpacks: smaller than SPZ, as small as SOG and 30 times faster to write.
"""

import base64
import gzip
import html
import json
import tempfile
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from splat_cli.errors import UsageError, escape_unprintable
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.editing.move import rotated
from splat_cli.gaussians.formats.compressed_ply import write_compressed_ply
from splat_cli.io.files import replacing
from splat_cli.scene.view import View
from splat_cli.viewer.camera_defaults import pivot_point, seen_points, upright_rotation

_STATIC = Path(__file__).parent / "static"
_FLIPPED = np.diag([-1.0, -1.0, 1.0])
"""Rotation that the viewer applies on loading: files have y down, its world has y up."""


def write_html(
    path: Path,
    splats: SplatArrays,
    start: View,
    up: np.ndarray,
    background: tuple[float, float, float] = (0.0, 0.0, 0.0),
    title: str = "Splats",
    framed: np.ndarray | None = None,
) -> None:
    """Write the page, with the initial camera `start`; up: unit vector, float64 [3].

    framed: points [P, 3] that the command "Frame Scene" shows, by default the splats' core.
    Antialiased splats are rendered with antialiasing. UsageError without splats.
    """
    if len(splats) == 0:
        raise UsageError(f"{path} was not written: it would show no splats")
    rotation = upright_rotation(up, start)
    content = _compressed_ply(rotated(splats, rotation))
    scene = {
        "background": background,
        "antialiased": splats.antialiased,
        "bytes": len(content),
        "camera": _camera(start, pivot_point(splats.means, start), _FLIPPED @ rotation),
        "frame": _box((seen_points(splats.means, ()) if framed is None else framed) @ (_FLIPPED @ rotation).T),
    }
    page = Template(_static("page.html")).substitute(
        title=html.escape(escape_unprintable(title)),
        background="#" + "".join(f"{round(255 * value):02x}" for value in background),
        licences=_static("LICENSES.txt"),
        style=_static("supersplat-viewer.css"),
        script=_static("supersplat-viewer.js"),
        scene=json.dumps(scene).replace("<", "\\u003c"),
        splats=base64.b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode(),
    )
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _camera(view: View, target: np.ndarray, to_viewer: np.ndarray) -> dict[str, Any]:
    """The camera in the viewer's coordinates, and half the width and height of its view at distance 1."""
    shown = view.pinhole
    return {
        "position": (to_viewer @ view.center).tolist(),
        "target": (to_viewer @ target).tolist(),
        "width": shown.width / shown.fx / 2,
        "height": shown.height / shown.fy / 2,
    }


def _box(points: np.ndarray) -> dict[str, Any]:
    """Centre of the box around points [P, 3], and half the length of its diagonal."""
    low, high = points.min(axis=0), points.max(axis=0)
    return {"center": ((low + high) / 2).tolist(), "radius": max(float(np.linalg.norm(high - low)) / 2, 1e-3)}


def _compressed_ply(splats: SplatArrays) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "splats.compressed.ply"
        write_compressed_ply(file, splats)
        return file.read_bytes()


def _static(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")
