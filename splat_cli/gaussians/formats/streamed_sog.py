"""PlayCanvas' Streamed SOG, version 1: chunks of a scene at several levels of detail, and a k-d tree of them.

A folder with `lod-meta.json` and, for each leaf of a k-d tree and each level, an unpacked .sog in LEVEL_LEAF/. A viewer
chooses the level of each leaf by the leaf's distance. Specification:
https://developer.playcanvas.com/user-manual/gaussian-splatting/formats/streamed-sog/
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli import __version__
from splat_cli.errors import FormatError
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.editing.decimate import extents, halved
from splat_cli.gaussians.formats.sog import sog_files
from splat_cli.io.files import replacing_together

NAME = "lod-meta.json"
LEAF_SPLATS = 1 << 16
"""Maximum number of splats of a leaf at the finest level."""
DEVIATIONS = 3.0
"""Extent of a splat within the bounds of its node, in standard deviations."""
_MAX_SIZE = 0.05
"""Maximum size of a splat in a leaf, relative to the scene: larger ones would extend the bounds of the leaf too far."""
_STRAYS = (1, 99)
"""Percentiles of the positions that define the bounds of the scene."""


@dataclass
class _Writer:
    """Writes the chunks of the leaves, and collects their entries of the index."""

    folder: Path
    num_levels: int
    filenames: list[str] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    num_leaves: int = 0

    def node(self, splats: SplatArrays) -> dict[str, Any]:
        """The subtree of these splats."""
        low, high = extents(splats, DEVIATIONS)
        node: dict[str, Any] = {"bound": {"min": low.tolist(), "max": high.tolist()}}
        if len(splats) <= LEAF_SPLATS:
            return node | {"lods": self._leaf(splats)}
        return node | {"children": [self.node(half) for half in halves(splats)]}

    def chunk(self, name: str, splats: SplatArrays) -> str:
        """Write an unpacked .sog; returns the path of its meta.json in the folder."""
        (self.folder / name).mkdir()
        for file, content in sog_files(splats).items():
            (self.folder / name / file).write_bytes(content)
        return f"{name}/meta.json"

    def _leaf(self, splats: SplatArrays) -> dict[str, dict[str, int]]:
        lods = {}
        for level, part in enumerate(_levels(splats, self.num_levels)):
            lods[str(level)] = {"file": len(self.filenames), "offset": 0, "count": len(part)}
            self.filenames.append(self.chunk(f"{level}_{self.num_leaves}", part))
            self.counts[level] += len(part)
        self.num_leaves += 1
        return lods


def write_streamed_sog(path: Path, splats: SplatArrays, num_levels: int) -> list[int]:
    """Write the index `path`, named lod-meta.json, and the chunks next to it; returns the levels' counts.

    Each level has half the splats of the previous one. Splats that are large for the scene become its environment,
    which viewers always show. After an error, existing files are unchanged. FormatError without splats.
    """
    if len(splats) == 0:
        raise FormatError(f"{path} was not written: no splats are left; keep some")
    large = is_large(splats)
    with replacing_together(path) as folder:
        writer = _Writer(folder, num_levels, counts=[0] * num_levels)
        tree = writer.node(splats.select(~large))
        environment = {"environment": writer.chunk("env", splats.select(large))} if large.any() else {}
        content = {
            "version": 1,
            "asset": {"generator": f"splat {__version__}"},
            "count": sum(writer.counts),
            "counts": writer.counts,
            "lodLevels": num_levels,
            **environment,
            "filenames": writer.filenames,
            "tree": tree,
        }
        (folder / path.name).write_text(json.dumps(content) + "\n", encoding="utf-8")
    return writer.counts


def halves(splats: SplatArrays) -> list[SplatArrays]:
    """The splats in two halves along their longest axis."""
    axis = int(np.argmax(np.ptp(splats.means, axis=0)))
    order = np.argsort(splats.means[:, axis], kind="stable")
    return [splats.select(half) for half in np.array_split(order, 2)]


def is_large(splats: SplatArrays) -> np.ndarray:
    """Mask of the splats that are large for the scene; never all of them."""
    low, high = np.percentile(splats.means.astype(np.float64), _STRAYS, axis=0)
    sizes = splats.longest_axes()
    large: np.ndarray = sizes > max(_MAX_SIZE * float((high - low).max()), float(sizes.min()))
    return large


def _levels(splats: SplatArrays, num_levels: int) -> Iterator[SplatArrays]:
    yield splats
    for _ in range(num_levels - 1):
        splats = halved(splats)
        yield splats
