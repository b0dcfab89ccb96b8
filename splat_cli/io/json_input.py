"""JSON from untrusted files: the memory of its values is bounded before they are created."""

import json
import re
import sys
from pathlib import Path
from typing import Any

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
    """Parse JSON. ValueError if the text is invalid, nested too deeply, or its values would take too much memory."""
    text = content if isinstance(content, str) else content.decode("utf-8")
    allowed = _BASE_BYTES + _BYTES_PER_CHARACTER * len(text)
    if _value_bytes(text, num_same_keys=0) > allowed and _value_bytes(text, _num_repeated_keys(text)) > allowed:
        raise ValueError(f"it holds too many values for {len(text):,} characters")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


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
