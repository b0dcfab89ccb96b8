"""Content of untrusted files: bytes, and values of JSON documents, with errors that state the reason."""

from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.errors import FormatError
from splat_cli.io.files import regular
from splat_cli.io.json_input import parse_json

_KINDS = {dict: "an object", list: "a list", int: "a whole number", str: "a text"}


def read_bytes(path: Path) -> bytes:
    """Content of a file; FormatError if it cannot be read."""
    try:
        return regular(path).read_bytes()
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from error


def json_object(content: bytes) -> dict[str, Any]:
    """The object that a JSON text holds. ValueError if it is damaged."""
    try:
        values = parse_json(content)
    except UnicodeDecodeError:
        raise ValueError("its JSON is not in UTF-8") from None
    if not isinstance(values, dict):
        raise ValueError("its JSON is not an object")
    return values


def entry(values: Any, key: str | int, kind: type, default: Any = None, name: str = "its") -> Any:
    """The value of `key` in a JSON object or list. ValueError if it is missing or of another kind.

    default: for a value that may be missing. name: for the message, put before the key.
    """
    found = default
    if isinstance(values, dict):
        found = values.get(key, default)
    elif isinstance(values, list) and isinstance(key, int) and 0 <= key < len(values):
        found = values[key]
    if not isinstance(found, kind) or isinstance(found, bool):
        raise ValueError(f"{name} {key!a} is missing or not {_KINDS[kind]}")
    return found


def objects(values: Any, key: str, default: Any = None) -> list[dict[str, Any]]:
    """The objects in a list of JSON. ValueError for anything else."""
    found: list[dict[str, Any]] = entry(values, key, list, default)
    if not all(isinstance(item, dict) for item in found):
        raise ValueError(f"its {key!a} is not a list of objects")
    return found


def numbers(values: Any, key: str, count: int) -> np.ndarray:
    """float64 [count] of a list of numbers in JSON. ValueError for anything else."""
    found = entry(values, key, list)
    if len(found) != count or not all(isinstance(item, float) or _is_short(item) for item in found):
        raise ValueError(f"its {key!a} is not a list of {count} numbers")
    return np.array(found, np.float64)


def _is_short(item: Any) -> bool:
    """Whether a value is a whole number that float64 can hold."""
    return isinstance(item, int) and not isinstance(item, bool) and abs(item) < 1e300
