"""Point clouds in PLY, LAS and LAZ files: positions and optional colours."""

from pathlib import Path

import numpy as np
import plyfile

from splat_cli.errors import FormatError
from splat_cli.ply_header import MAX_HEADER_BYTES, check_header, plain_name
from splat_cli.scene.dataset import Points
from splat_cli.scene.points.las import LAS_MAGIC, LAS_SUFFIXES, read_las
from splat_cli.scene.points.las_worker import GREY

_COLOR_NAMES = (("red", "green", "blue"), ("r", "g", "b"), ("diffuse_red", "diffuse_green", "diffuse_blue"))
"""The last ones are those of Bundler and PMVS."""
_OF_SPLATS = {"scale_0", "f_dc_0", "packed_scale"}


def is_point_cloud(path: Path) -> bool:
    """Whether `path` is a LAS or LAZ file, or a PLY of points that are no splats, plain or compressed."""
    try:
        with path.open("rb") as file:
            head = file.read(MAX_HEADER_BYTES).split(b"end_header")[0]
    except OSError:
        return False
    if head.startswith(LAS_MAGIC):
        return True
    lines = [line.split() for line in head.decode("ascii", "replace").splitlines()]
    names = {plain_name(words[-1]) for words in lines if words[:1] == ["property"]}
    return head.startswith(b"ply") and {"x", "y", "z"} <= names and not names & _OF_SPLATS


def read_point_cloud(path: Path) -> Points:
    """Vertices of a PLY of any encoding, or points of a LAS or LAZ file.

    FormatError if the file is damaged or holds no positions; UsageError if laspy is missing.
    """
    if path.suffix.lower() in LAS_SUFFIXES:
        return read_las(path)
    check_header(path, "a point cloud")
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # beyond float32 or not a number: dropped later
            vertices = plyfile.PlyData.read(str(path))["vertex"].data
            columns = [vertices[name] for name in "xyz"]
            positions = np.stack(columns, axis=1, dtype=np.result_type(np.float32, *columns))
            colors = _colors(vertices)
    except (KeyError, ValueError) as error:
        raise FormatError(f"{path} is no point cloud: vertices need x, y and z ({error}); export it again") from error
    except (plyfile.PlyParseError, OverflowError, MemoryError) as error:
        raise FormatError(f"{path} is not a readable PLY ({error}); it is damaged: export it again") from error
    return Points(positions, colors)


def _colors(vertices: np.ndarray) -> np.ndarray:
    """uint8 [P, 3]; grey where the file has none. Floating-point colours go from 0 to 1."""
    names = vertices.dtype.names or ()
    for wanted in _COLOR_NAMES:
        if all(name in names for name in wanted):
            stacked = np.stack([vertices[name] for name in wanted], axis=1)
            if stacked.dtype.kind == "f":
                stacked = np.nan_to_num(stacked, nan=0.5) * 255
            return np.clip(stacked, 0, 255).astype(np.uint8)
    return np.full((len(vertices), 3), GREY, np.uint8)
