"""JSON from untrusted files: its size, the memory of its values, and values of the expected kind. Numbers in texts."""

import json
import math
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.errors import FormatError
from splat_cli.io.files import regular

MAX_JSON_BYTES = 64 << 20
"""Maximum size of a file. A dataset has at most 65,536 cameras, which take 40 MB."""
_BASE_BYTES, _BYTES_PER_CHARACTER = 56 << 20, 4
"""Memory limit of text and values. Values alone take up to 36 bytes per character, 2 to 4 in files of cameras."""
_KEY = re.compile(r'"[^"\\]{0,60}"\s*:')
_MAX_KEYS = 1000


def read_json_text(path: Path) -> str:
    """Content of a UTF-8 file without its byte order mark. Raises OSError; ValueError if too long or not UTF-8."""
    with regular(path).open("rb") as file:
        content = file.read(MAX_JSON_BYTES + 1)
    if len(content) > MAX_JSON_BYTES:
        raise ValueError(f"it is longer than {MAX_JSON_BYTES:,} bytes")
    return content.decode("utf-8-sig")


def parse_json(content: str | bytes) -> Any:
    """Parse JSON. ValueError if the text is invalid, nested too deeply, or its values would take too much memory.

    Also if an object has a key twice: each program takes another of the two values.
    """
    text = content if isinstance(content, str) else content.decode("utf-8")
    allowed = _BASE_BYTES + _BYTES_PER_CHARACTER * len(text)
    if _value_bytes(text, num_same_keys=0) > allowed and _value_bytes(text, _num_repeated_keys(text)) > allowed:
        raise ValueError(f"it holds too many values for {len(text):,} characters")
    try:
        return json.loads(text, object_pairs_hook=_without_repeated_keys)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        repeated = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"an object has the key {repeated[:60]!a} more than once")
    return values


def _value_bytes(text: str, num_same_keys: int) -> int:
    """Upper bound of the memory of text and values, in bytes (CPython, 64 bits).

    A dict takes 192 bytes with one key and at most 56 per further key; a list 88 with one value; a slot of a list 9,
    including spare slots; a number 32; a string 80. Equal keys are one object.
    """
    num_keys, num_strings = text.count(":"), text.count('"') // 2 - num_same_keys
    containers = 136 * text.count("{") + 56 * num_keys + 88 * text.count("[")
    num_commas = text.count(",")
    num_numbers = max(0, num_commas + 1 - max(0, num_strings - max(0, num_keys - num_same_keys)))
    return 2 * sys.getsizeof(text) + containers + 9 * num_commas + 80 * num_strings + 32 * num_numbers


def _num_repeated_keys(text: str) -> int:
    """Number of keys that repeat an earlier key; 0 if there are too many different keys to count."""
    seen: set[str] = set()
    count = 0
    for match in _KEY.finditer(text):
        count += 1
        seen.add(match[0])
        if len(seen) > _MAX_KEYS:
            return 0
    return count - len(seen)


MAX_NUMBER = 1e300
"""Numbers of larger magnitude count as infinite."""
_DECIMAL = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a finite number, not true or false."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_NUMBER


def decimal(text: str) -> float:
    """The finite number in a text. ValueError for others, also those that only Python reads, such as 1_000."""
    value = float(text) if _DECIMAL.fullmatch(text) else math.nan
    if not is_number(value):
        raise ValueError(f"{text[:40]!a} is not a finite decimal number")
    return value


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


def number(values: Any, key: str, default: Any = None) -> float:
    """A finite number in a JSON object. ValueError for anything else, or if it is missing without a default."""
    found: Any = values.get(key, default) if isinstance(values, dict) else None
    if not is_number(found):
        raise ValueError(f"its {key!a} is missing or not a finite number")
    return float(found)


def whole(values: Any, key: str, default: Any = None) -> int:
    """As `number`, for a whole number, which may be written as 4.0."""
    found = number(values, key, default)
    if not found.is_integer():
        raise ValueError(f"its {key!a} is not a whole number")
    return int(found)


def numbers(values: Any, key: str, *shape: int) -> np.ndarray:
    """float64 [*shape] of a list, or of lists in a list, of finite numbers in JSON. ValueError for anything else."""
    flat = entry(values, key, list)
    if all(isinstance(row, list) and len(row) == shape[-1] for row in flat):
        flat = [item for row in flat for item in row]
    if len(flat) != math.prod(shape) or not all(map(is_number, flat)):
        raise ValueError(f"its {key!a} is not a list of {' x '.join(map(str, shape))} finite numbers")
    return np.array(flat, np.float64).reshape(shape)
