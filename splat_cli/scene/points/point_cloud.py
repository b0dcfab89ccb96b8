"""Point clouds in PLY, LAS and LAZ files: positions and optional colours."""

import importlib.util
import json
from pathlib import Path
from typing import IO

import numpy as np
import plyfile

from splat_cli.errors import FormatError, UsageError, reason_of
from splat_cli.io.files import regular
from splat_cli.io.ply_header import MAX_HEADER_BYTES, check_header, color_levels, damage_of, plain_name
from splat_cli.processes.child_process import ending, kill, receive, start_worker
from splat_cli.scene.dataset import Points
from splat_cli.scene.points import las_worker
from splat_cli.scene.points.las_worker import GREY

LAS_SUFFIXES = (".las", ".laz")
LAS_MAGIC = b"LASF"
_PROGRAM = f"from {las_worker.__name__} import main; main()"
_COLOR_NAMES = (("red", "green", "blue"), ("r", "g", "b"), ("diffuse_red", "diffuse_green", "diffuse_blue"))
"""The last three are Bundler's and PMVS's."""
_OF_SPLATS = {"scale_0", "f_dc_0", "packed_scale"}


def read_las(path: Path) -> Points:
    """Points of a LAS or LAZ file (ASPRS), in its own coordinates.

    FormatError if the file is damaged, even if its decoder crashes, or all is noise; UsageError if laspy is missing.
    """
    if importlib.util.find_spec("laspy") is None:
        raise UsageError(f"{path} needs laspy: pip install 'splat-cli[las]'")
    try:
        regular(path).open("rb").close()
    except OSError as error:
        raise FormatError(f"{path} cannot be read ({reason_of(error)})") from error
    process = start_worker(_PROGRAM, str(path))
    try:
        assert process.stdout is not None
        points = _received(process.stdout)
    except (ValueError, MemoryError) as error:
        reason = str(error) or f"its decoder failed: {ending(process.wait())}"
        raise FormatError(f"{path} is not a readable LAS file ({reason}); export it again") from None
    finally:
        kill(process)
    if points.num_noise and not len(points.positions):
        raise FormatError(f"{path}: all {points.num_noise:,} points are classified as noise: correct their classes")
    return points


def _received(stream: IO[bytes]) -> Points:
    """The points that the worker writes. ValueError with its reason, or without one if its output ends early."""
    head = stream.readline()
    if not head:
        raise ValueError
    answer = json.loads(head)
    if "error" in answer:
        raise ValueError(answer["error"])
    positions = np.empty((answer["points"], 3), np.float64)
    colors = np.empty((answer["points"], 3), np.uint8)
    for array in (positions, colors):
        receive(stream, array.reshape(-1).view(np.uint8).data)
    return Points(positions, colors, num_noise=answer["noise"])


def is_point_cloud(path: Path) -> bool:
    """Whether `path` is a LAS or LAZ file, or a PLY of points, not of splats."""
    try:
        with regular(path).open("rb") as file:
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

    FormatError if the file is damaged or has no positions; UsageError if it holds splats without
    colours or laspy is missing.
    """
    if path.suffix.lower() in LAS_SUFFIXES:
        return read_las(path)
    check_header(path, "a point cloud")
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # beyond float32 or not a number: dropped later
            vertices = plyfile.PlyData.read(str(path))["vertex"].data
            names = {*(vertices.dtype.names or ())}
            if _OF_SPLATS & names and not any(names >= {*colors} for colors in _COLOR_NAMES):  # it would be grey
                raise UsageError(f"{path} holds splats, not points: start from them with --init-from")
            columns = [vertices[name] for name in "xyz"]
            positions = np.stack(columns, axis=1, dtype=np.result_type(np.float32, *columns))
            colors = _colors(vertices)
    except (KeyError, ValueError) as error:
        raise FormatError(
            f"{path} is not a point cloud: vertices need x, y and z ({damage_of(error)}); export it again"
        ) from error
    except (plyfile.PlyParseError, OverflowError, MemoryError) as error:
        raise FormatError(
            f"{path} is not a readable PLY ({damage_of(error)}); it is damaged: export it again"
        ) from error
    return Points(positions, colors)


def _colors(vertices: np.ndarray) -> np.ndarray:
    """uint8 [P, 3]; grey where the file has none."""
    names = vertices.dtype.names or ()
    for wanted in _COLOR_NAMES:
        if all(name in names for name in wanted):
            levels = np.nan_to_num(color_levels([vertices[name] for name in wanted]), nan=GREY)
            return np.clip(levels, 0, 255).astype(np.uint8)
    return np.full((len(vertices), 3), GREY, np.uint8)
