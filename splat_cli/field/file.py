"""File of a colour field and its splats: .npz without pickles, mostly in half precision."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.device import Backend
from splat_cli.errors import ZIP_ERRORS, FormatError, ShapeError, UsageError, reason_of
from splat_cli.field.color_field import BOUNDS_DTYPE, ColorField, FieldShape
from splat_cli.field.hash_grid import MAX_DIRECTION_DEGREE
from splat_cli.field.network import check_widths
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.ply import finite_splats
from splat_cli.io.archives import read_npz
from splat_cli.io.files import replacing
from splat_cli.io.json_input import parse_json

FORMAT = 1
NAME = "field.npz"
MEAN = "mean"
COLUMNS = ("means", "log_scales", "quats", "logit_opacities", "sh0")
OPTIONAL = ("shN", "features")  # left out if empty


@dataclass(frozen=True)
class FieldFile:
    """arrays: values of the field's parts by name. names: names of the embedded photographs."""

    splats: SplatArrays
    shape: FieldShape
    frame: np.ndarray
    names: list[str]
    arrays: dict[str, np.ndarray]

    def open(self, backend: Backend, rows: int) -> ColorField:
        """The field on a device, for `rows` splats per evaluation."""
        field = ColorField(backend, self.shape, self.frame, len(self.names), rows, np.random.default_rng(0))
        for part, parameters in field.parts().items():
            values = self.arrays[part].astype(np.float32).ravel()
            parameters.values[: values.size] = backend.upload(values)
        field.refresh()
        return field

    def embedding(self, name: str | None) -> np.ndarray:
        """Embedding of a photograph, float32 [appearance]; None or "mean": the mean. UsageError for unknown names."""
        rows = self.arrays["embeddings"].reshape(len(self.names), self.shape.appearance)
        if name is None or name == MEAN:
            return rows.mean(axis=0)
        if self.shape.appearance == 0:
            raise UsageError(f"appearance {name}: the run was trained without --field-appearance, so there is only one")
        if name not in self.names:
            known = ", ".join(self.names[:3])
            raise UsageError(f"appearance {name}: expected {MEAN} or a training photograph such as {known}")
        return rows[self.names.index(name)]


def write_field(path: Path, field: ColorField, splats: SplatArrays, names: Sequence[str]) -> None:
    """Write the field and its splats. DiskError, UsageError as in `replacing`."""
    lengths = np.maximum(np.linalg.norm(splats.quats, axis=1, keepdims=True), 1e-12)
    halves = {name: getattr(splats, name) for name in COLUMNS[1:]} | {"quats": splats.quats / lengths}
    halves |= {name: array for name, array in splats.arrays().items() if name in OPTIONAL and array.size}
    frame = {name: field.frame[name].tolist() for name in BOUNDS_DTYPE.names or ()}
    header = {"format": FORMAT, "shape": field.shape.to_dict(), "frame": frame, "names": list(names)}
    header["antialiased"] = splats.antialiased
    sizes = field.shape.sizes()
    parts: dict[str, Any] = {
        part: field.backend.download(field.parts()[part].values)[:size] for part, size in sizes.items()
    }
    parts["tables"] = parts["tables"].astype(np.float16)
    parts["embeddings"] = field.embedding_rows()
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            header=np.frombuffer(json.dumps(header).encode(), np.uint8),
            means=splats.means,
            **{name: array.astype(np.float16) for name, array in halves.items()},
            **parts,
        )


def read_field(path: Path) -> FieldFile:
    """Read a file. FormatError if it is damaged or another kind of file."""
    try:
        arrays = read_npz(path)
        header = parse_json(arrays.pop("header").tobytes())
        if header["format"] != FORMAT:
            raise ValueError(f"format {header['format']!a}, expected {FORMAT}")
        if not all(array.dtype.kind == "f" for array in arrays.values()):
            raise ValueError("its arrays are not floating-point numbers")
        shape, frame, names = _shape(header["shape"]), _frame(header["frame"]), _names(header["names"])
        with np.errstate(over="ignore"):  # numbers beyond float32 become infinite, and their splats are dropped
            columns: dict[str, Any] = {name: arrays.pop(name).astype(np.float32) for name in COLUMNS}
            columns |= {name: arrays.pop(name).astype(np.float32) for name in OPTIONAL if name in arrays}
        columns.setdefault("shN", np.zeros((len(columns["means"]), 0, 3), np.float32))
        splats = finite_splats(SplatArrays(**columns, antialiased=header["antialiased"] is True))
        if splats.num_features != shape.features:
            raise ValueError(f"its splats have {splats.num_features} features, expected {shape.features}")
        expected = {**shape.sizes(), "embeddings": len(names) * shape.appearance}
        if {name: array.size for name, array in arrays.items()} != expected:
            raise ValueError("its arrays do not match its shape")
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("its arrays hold numbers that are not finite")
        return FieldFile(splats, shape, frame, names, arrays)
    except (*ZIP_ERRORS, KeyError, TypeError, AttributeError, OverflowError, ShapeError) as error:
        reason = reason_of(error)
        raise FormatError(f"{path} is not the file of a colour field ({reason}); export or train again") from error


def _shape(values: dict[str, Any]) -> FieldShape:
    """The shape from the output of `FieldShape.to_dict`; ValueError, TypeError or ShapeError if invalid."""
    shape = FieldShape.from_dict(values)
    grid = shape.grid
    grid_counts = grid.dimensions, grid.levels, grid.table_size, grid.features, grid.base_resolution
    counts = *grid_counts, shape.direction_degree, shape.appearance, shape.features, *shape.hidden
    if not all(type(count) is int for count in counts) or grid.dimensions != 3:
        raise ValueError("its shape is not made of whole numbers in three dimensions")
    if not (
        grid.growth >= 1
        and 1 <= shape.direction_degree <= MAX_DIRECTION_DEGREE
        and min(shape.appearance, shape.features) >= 0
    ):
        raise ValueError("its shape has invalid sizes")
    check_widths(shape.widths)
    return shape


def _frame(values: dict[str, Any]) -> np.ndarray:
    """BOUNDS_DTYPE scalar; ValueError if it is not finite or has no radius."""
    frame = np.zeros((), BOUNDS_DTYPE)
    with np.errstate(over="ignore"):
        frame["center"], frame["inv_radius"] = np.array(values["center"], np.float64).reshape(3), values["inv_radius"]
    if not (np.isfinite(frame["center"]).all() and 0 < frame["inv_radius"] < np.inf):
        raise ValueError("its frame is not finite")
    return frame


def _names(names: Any) -> list[str]:
    """Names of one or more photographs; TypeError for anything else."""
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise TypeError("it names no photographs")
    return names
