"""3D Tiles 1.1 for CesiumJS: a tree of tiles with .spz.glb files, coarser ones above.

Specification: https://docs.ogc.org/cs/22-025r4/22-025r4.html. A tile has at most 65,536 splats; its children replace it
where it is large on the screen. CesiumJS takes an .spz in the axes that it is stored in, right, up, back, as those of
glTF, and turns y up into the z up of tiles.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli import __version__
from splat_cli.errors import FormatError
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.editing.decimate import extents, halved
from splat_cli.gaussians.editing.edits import merged
from splat_cli.gaussians.formats.gltf import EXTENSION, SPZ_EXTENSION, write_spz_glb
from splat_cli.gaussians.formats.streamed_sog import DEVIATIONS, LEAF_SPLATS, halves, is_large
from splat_cli.io.files import replacing_together

NAME = "tileset.json"
_SHOWN_PIXELS = 512
"""Size of a tile on the screen at which its children replace it: two pixels per splat of a full tile."""
_ERROR_PIXELS = 16
"""Size of the geometric error on the screen at which CesiumJS refines a tile, by default."""
_CONTENT = "3DTILES_content_gltf"
_AXES = np.array([(1, 0, 0), (0, 0, 1), (0, -1, 0)])
"""Axes of tiles, of a PLY's coordinates: right, forward, up."""


@dataclass
class _Writer:
    """Writes the contents of tiles, and counts their splats by level, the finest first."""

    folder: Path
    counts: list[int] = field(default_factory=list)
    num_files: int = 0

    def tree(self, splats: SplatArrays) -> tuple[dict[str, Any], SplatArrays, int]:
        """(tile with its children, splats that it shows, levels below it)."""
        if len(splats) <= LEAF_SPLATS:
            return self.tile(splats, splats, 0, {}), splats, 0
        children, parts, levels = zip(*(self.tree(half) for half in halves(splats)), strict=True)
        shown, level = halved(merged(parts)), 1 + max(levels)
        return self.tile(splats, shown, level, {"children": children}), shown, level

    def tile(self, splats: SplatArrays, shown: SplatArrays, level: int, others: dict[str, Any]) -> dict[str, Any]:
        """Write the file of a tile that covers `splats` and shows `shown`; returns the tile."""
        name = f"{level}_{self.num_files}.glb"
        write_spz_glb(self.folder / name, shown)
        self.num_files += 1
        self.counts += [0] * (level + 1 - len(self.counts))
        self.counts[level] += len(shown)
        diagonal = float(np.linalg.norm(np.ptp(splats.means, axis=0)))
        return {
            "boundingVolume": _box(splats),
            "geometricError": diagonal * _ERROR_PIXELS / _SHOWN_PIXELS if level else 0.0,
            "refine": "REPLACE",
            "content": {"uri": name},
            **others,
        }


def write_tileset(path: Path, splats: SplatArrays) -> list[int]:
    """Write the index `path`, named tileset.json, and the tiles next to it; returns the levels' numbers of splats.

    Splats that are large for the scene are a tile that is always shown. After an error, existing files are unchanged.
    FormatError without splats.
    """
    if len(splats) == 0:
        raise FormatError(f"{path} was not written: no splats are left; keep some")
    large = is_large(splats)
    with replacing_together(path) as folder:
        writer = _Writer(folder)
        root = writer.tree(splats.select(~large))[0]
        if large.any():
            background = writer.tile(splats.select(large), splats.select(large), 0, {})
            error = 2 * max(root["geometricError"], 1.0)  # must not be less than that of a child
            root = {"geometricError": error, "refine": "ADD", "children": [root, background]}
            root["boundingVolume"] = _box(splats)
        names = [EXTENSION, SPZ_EXTENSION]
        content = {
            "asset": {"version": "1.1", "generator": f"splat {__version__}"},
            "extensionsUsed": [_CONTENT],
            "extensions": {_CONTENT: {"extensionsUsed": names, "extensionsRequired": names}},
            "geometricError": 2 * max(root["geometricError"], 1.0),
            "root": root,
        }
        (folder / path.name).write_text(json.dumps(content) + "\n", encoding="utf-8")
    return writer.counts


def _box(splats: SplatArrays) -> dict[str, list[float]]:
    """The bounding volume: centre and half axes of a box, in the axes of tiles."""
    low, high = (_AXES @ corner for corner in extents(splats, DEVIATIONS))
    half = np.abs(high - low) / 2
    return {"box": [*((low + high) / 2).tolist(), *np.diag(half).ravel().tolist()]}
