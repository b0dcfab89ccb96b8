"""JSON from untrusted files: its size, the memory of its values, and values of the expected kind."""

import json
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
