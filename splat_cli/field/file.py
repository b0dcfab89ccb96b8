"""The file of a colour field and its splats: a .npz without pickles, most of it in half precision."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.device import Backend
from splat_cli.errors import ZIP_ERRORS, FormatError, ShapeError, UsageError
from splat_cli.field.color_field import ColorField, FieldShape
from splat_cli.field.frame import FRAME_DTYPE
from splat_cli.files import replacing
from splat_cli.gaussians.arrays import SplatArrays

FORMAT = 1
NAME = "field.npz"
MEAN = "mean"
COLUMNS = ("means", "log_scales", "quats", "logit_opacities", "sh0")


@dataclass(frozen=True)
class FieldFile:
    """splats: of degree 0. arrays: values of the field's parts by name. names: of the photographs, as embedded."""

    splats: SplatArrays
    shape: FieldShape
    frame: np.ndarray
    names: list[str]
    arrays: dict[str, np.ndarray]

    def open(self, backend: Backend, rows: int) -> ColorField:
        """The field on a device, for `rows` splats at once."""
        field = ColorField(backend, self.shape, self.frame, len(self.names), rows, np.random.default_rng(0))
        for part, parameters in field.parts().items():
            values = self.arrays[part].astype(np.float32).ravel()
            parameters.values[: values.size] = backend.upload(values)
        field.refresh()
        return field

    def embedding(self, name: str | None) -> np.ndarray:
        """Of a photograph, float32 [appearance]; of None or "mean" the mean of all. UsageError for an unknown one."""
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
    """Writes the field and the splats, of degree 0, that it colours. DiskError, UsageError as `replacing`."""
    lengths = np.maximum(np.linalg.norm(splats.quats, axis=1, keepdims=True), 1e-12)
    halves = {
        "log_scales": splats.log_scales, "quats": splats.quats / lengths, "logit_opacities": splats.logit_opacities,
        "sh0": splats.sh0,
    }  # fmt: skip
    frame = {name: field.frame[name].tolist() for name in FRAME_DTYPE.names or ()}
    header = {"format": FORMAT, "shape": field.shape.facts(), "frame": frame, "names": list(names)}
    header["antialiased"] = splats.antialiased
    sizes = field.shape.sizes()
    parts = {part: field.backend.download(field.parts()[part].values)[:size] for part, size in sizes.items()}
    parts["tables"] = parts["tables"].astype(np.float16)
    parts["embeddings"] = field.embedding_rows()
    with replacing(path) as beside, beside.open("wb") as file:
        np.savez(
            file,
            header=np.frombuffer(json.dumps(header).encode(), np.uint8),
            means=splats.means,
            **{name: array.astype(np.float16) for name, array in halves.items()},
            **parts,
        )


def read_field(path: Path) -> FieldFile:
    """Reads the file back. FormatError where it is damaged or not one."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            arrays = {name: np.asarray(content[name]) for name in content.files}  # what is no array comes as bytes
        header = json.loads(arrays.pop("header").tobytes())
        if header["format"] != FORMAT:
            raise ValueError(f"format {header['format']}, expected {FORMAT}")
        shape, frame = FieldShape.from_facts(header["shape"]), np.zeros((), FRAME_DTYPE)
        for name in FRAME_DTYPE.names or ():
            frame[name] = header["frame"][name]
        columns: dict[str, Any] = {name: arrays.pop(name).astype(np.float32) for name in COLUMNS}
        none = np.zeros((len(columns["means"]), 0, 3), np.float32)
        splats = SplatArrays(**columns, shN=none, antialiased=bool(header["antialiased"]))
        expected = {**shape.sizes(), "embeddings": len(header["names"]) * shape.appearance}
        if {name: array.size for name, array in arrays.items()} != expected:
            raise ValueError("its arrays do not fit its shape")
        return FieldFile(splats, shape, frame, header["names"], arrays)
    except (*ZIP_ERRORS, KeyError, TypeError, ShapeError) as error:
        raise FormatError(f"{path} is not the file of a colour field ({error}); export or train again") from error
