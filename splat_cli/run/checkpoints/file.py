"""File of a checkpoint: a .npz without pickles and a checksum of it (docs/checkpoints.md).

The checksum finds damage. Names, shapes and values are checked, too, because others may have written the file.
"""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import IO, Any

import numpy as np

from splat_cli import __version__
from splat_cli.errors import ZIP_ERRORS, FormatError, UsageError, reason_of
from splat_cli.gaussians.arrays import SH_DEGREE_FROM_COEFFICIENTS
from splat_cli.io.archives import read_npz
from splat_cli.io.files import read_error, regular, replacing
from splat_cli.io.json_input import parse_json
from splat_cli.model.model import num_without_moments
from splat_cli.render.iter_state import ITER_STATE_DTYPE

FORMAT = 1
_DIGEST = 64  # bytes: SHA-256 in hexadecimal
_CHUNK = 1 << 22
_MAX_STEP = 2**31 - 1
_PLANES = ("params", "stats")
_GEOMETRY_ROWS = 11
"""Rows of `params` before the coefficients of colours."""
_RATES_WITHOUT_FIELD = 6
"""Length of `lr` in checkpoints of earlier versions; each step sets all rates again."""
_UNBOUNDED = ("loss_l1", "loss_l2", "loss_ssim", "loss", "psnr")
"""Fields of the state that may be non-finite after a skipped step."""


@dataclass
class Checkpoint:
    """State of a run after a step.

    arrays: float32 `params` [rows, num], `moments` (see model.model.zero_moments), `stats` [2, trained],
    and arrays of joint models (train.joint_models); on the device until written. metadata: all other values, as JSON
    (keys: docs/checkpoints.md). trained: num without frozen splats (model.model.num_without_moments).
    """

    step: int
    arrays: dict[str, Any]
    metadata: dict[str, Any]

    @property
    def num_splats(self) -> int:
        """Number of splats, frozen ones included."""
        return int(self.arrays["params"].shape[1])

    @property
    def num_frozen(self) -> int:
        """Number of frozen splats among them; older checkpoints have none."""
        return int(self.metadata["state"].get("num_frozen", 0))


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write and flush the file atomically. Raises DiskError."""
    header = {"format": FORMAT, "program": __version__, "step": checkpoint.step, **checkpoint.metadata}
    header_bytes = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with replacing(path, durable=True) as temporary, temporary.open("wb+") as file:
        np.savez(file, header=header_bytes, **checkpoint.arrays)
        length = file.tell()
        file.write(_digest(file, length))


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint. FormatError if it is damaged.

    UsageError if another version wrote it, UnreadableError if it cannot be read now: such a file may be intact.
    """
    try:
        with regular(path).open("rb") as file:
            _check_digest(path, file)
        arrays = read_npz(path)
        metadata = parse_json(arrays.pop("header").tobytes())
        _check_version(path, metadata)
        _check_contents(arrays, metadata)
    except IsADirectoryError as error:
        raise FormatError(f"{path} cannot be read: {reason_of(error)}") from error
    except OSError as error:
        raise read_error(path, error) from error
    except (*ZIP_ERRORS, KeyError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else reason_of(error)
        raise FormatError(f"{path} is not a checkpoint of this program ({reason}); name another file") from error
    return Checkpoint(metadata.pop("step"), arrays, metadata)


def _check_version(path: Path, metadata: Any) -> None:
    if not isinstance(metadata, dict):
        raise ValueError("its header is not a JSON object")
    if metadata.pop("format", None) != FORMAT:
        version = str(metadata.get("program"))[:40]
        raise UsageError(
            f"{path} was written by version {version!a} in a format that {__version__} cannot read; resume with that "
            "version"
        )


def _check_digest(path: Path, file: IO[bytes]) -> None:
    length = path.stat().st_size - _DIGEST
    if length > 0:
        digest = _digest(file, length)
        if file.read(_DIGEST) == digest:
            return
    raise FormatError(f"{path} is damaged: its checksum does not match its content")


def _digest(file: IO[bytes], length: int) -> bytes:
    """SHA-256 of the next `length` bytes of the file, in hexadecimal."""
    digest = hashlib.sha256()
    file.seek(0)
    while length > 0:
        chunk = file.read(min(_CHUNK, length))
        if not chunk:
            break
        digest.update(chunk)
        length -= len(chunk)
    return digest.hexdigest().encode()


def _check_contents(arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> None:
    """ValueError with a short reason if arrays or metadata are invalid."""
    features, state = metadata.get("num_features", 0), metadata.get("state")
    frozen = state.get("num_frozen", 0) if isinstance(state, dict) else 0
    color_rows = _check_arrays(arrays, *(count if _is_count(count) else 0 for count in (features, frozen)))
    num = arrays["params"].shape[1]
    for key, (is_valid, wanted) in _METADATA.items():
        if key in metadata and not is_valid(metadata[key]):
            raise ValueError(f"its `{key}` is not {wanted}")
    missing = [key for key in _REQUIRED if key not in metadata]
    if missing:
        raise ValueError(f"it lacks `{missing[0]}`")
    if metadata["capacity"] < num:
        raise ValueError(f"it has room for {metadata['capacity']} splats, but holds {num}")
    _check_state(metadata["state"], metadata["step"], len(metadata["views"]), color_rows, num)


def _check_arrays(arrays: dict[str, np.ndarray], num_features: int, num_frozen: int) -> int:
    """Returns the number of rows of `params` that hold colours."""
    for name, array in arrays.items():
        if array.dtype != np.float32:
            raise ValueError(f"`{name}` is {array.dtype}, expected float32")
    moments = ("moments1", "moments2") if "moments1" in arrays else ("moments",)  # the former by earlier versions
    missing = [name for name in (*_PLANES, *moments) if name not in arrays]
    if missing:
        raise ValueError(f"it lacks `{missing[0]}`")
    params = arrays["params"]
    color_rows = params.shape[0] - _GEOMETRY_ROWS - num_features if params.ndim == 2 else 0
    if color_rows / 3 - 1 not in SH_DEGREE_FROM_COEFFICIENTS or params.shape[1] == 0:
        raise ValueError(f"`params` is {list(params.shape)}, not a row for each parameter of splats")
    columns = params.shape[1] - num_without_moments(num_frozen)
    few = len(params) - color_rows + 3  # without view-dependent colours
    for name, rows in {"moments": few, "moments1": few, "moments2": few, "stats": 2}.items():
        former = 2 if name == "stats" else len(params), params.shape[1]  # in earlier versions
        if name in arrays and arrays[name].shape not in product((rows, former[0]), (columns, former[1])):
            raise ValueError(f"`{name}` is {list(arrays[name].shape)}, expected {[rows, columns]}")
    return color_rows


def _check_state(state: dict[str, Any], step: int, num_views: int, color_rows: int, num: int) -> None:
    """Check the fields of `struct IterState`, as stored in JSON."""
    for name in sorted(state.keys() & set(ITER_STATE_DTYPE.names or ())):
        dtype = ITER_STATE_DTYPE[name]
        value = state[name]
        if name == "lr" and isinstance(value, list) and len(value) == _RATES_WITHOUT_FIELD:
            value = value + [0.0] * (dtype.shape[0] - len(value))
        if not _fits(value, dtype, name in _UNBOUNDED):
            raise ValueError(f"`{name}` of its `state` does not fit {dtype}")
    degree = SH_DEGREE_FROM_COEFFICIENTS[color_rows // 3 - 1]
    consistent = {
        "step": state.get("step") == step,
        "num_splats": state.get("num_splats") == num,
        "num_frozen": 0 <= state.get("num_frozen", 0) <= num,
        "view": 0 <= state.get("view", 0) < num_views,
        "sh_degree": 0 <= state.get("sh_degree", 0) <= degree,
    }
    for name, is_consistent in consistent.items():
        if not is_consistent:
            raise ValueError(f"`{name}` of its `state` is {state.get(name)}, which contradicts the rest")


def _fits(value: Any, dtype: np.dtype, may_be_unbounded: bool) -> bool:
    """Whether a number or a list of numbers is representable as `dtype`."""
    numbers = value if isinstance(value, list) else [value]
    if (len(numbers),) != (dtype.shape or (1,)) or isinstance(value, list) != bool(dtype.shape):
        return False
    if dtype.base.kind == "f":
        return all(_is_number(number) and (may_be_unbounded or abs(number) < 3e38) for number in numbers)
    limits = np.iinfo(dtype.base)
    return all(_is_count(number, limits.min, limits.max) for number in numbers)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any, low: int = 0, high: int = 2**53) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_size(value: Any) -> bool:
    return _is_number(value) and 0 < value < 1e30


def _is_random(value: Any) -> bool:
    """Whether NumPy accepts it as the state of its generator."""
    try:
        np.random.default_rng().bit_generator.state = value
    except (TypeError, ValueError, KeyError, OverflowError, AttributeError):
        return False
    return True


_METADATA: dict[str, tuple[Callable[[Any], bool], str]] = {
    "step": (lambda value: _is_count(value, high=_MAX_STEP), "a number of steps"),
    "seconds": (lambda value: _is_number(value) and math.isfinite(value) and value >= 0, "a number of seconds"),
    "capacity": (_is_count, "a number of splats"),
    "size": (_is_size, "a positive length"),
    "removed": (_is_count, "a number of splats"),
    "num_features": (_is_count, "a number of features"),
    "state": (lambda value: isinstance(value, dict), "an object"),
    "random": (_is_random, "the state of a generator"),
    "views": (
        lambda value: isinstance(value, list) and bool(value) and all(isinstance(name, str) for name in value),
        "a list of names",
    ),
}
"""Key of the header -> (predicate of valid values, description of these)."""
_REQUIRED = tuple(key for key in _METADATA if key not in ("size", "num_features"))  # older checkpoints lack them
