"""JSON from untrusted files: the memory that its values take is bounded before they are made."""

import json
import re
import sys
from pathlib import Path
from typing import Any

MAX_JSON_BYTES = 64 << 20
"""Of a file: that of 65,536 cameras, the most that a dataset may have, takes 40 MB."""
_BASE_BYTES, _BYTES_PER_CHARACTER = 56 << 20, 4
"""What text and values may take together. Values alone take up to 36 bytes a character, in files of cameras 2 to 4."""
_KEY = re.compile(r'"[^"\\]{0,60}"\s*:')
_MAX_KEYS = 1000


def read_json_text(path: Path) -> str:
    """The content of a file in UTF-8, without its byte order mark. OSError; ValueError if too long or no UTF-8."""
    with path.open("rb") as file:
        content = file.read(MAX_JSON_BYTES + 1)
    if len(content) > MAX_JSON_BYTES:
        raise ValueError(f"it is longer than {MAX_JSON_BYTES:,} bytes")
    return content.decode("utf-8-sig")


def parse_json(content: str | bytes) -> Any:
    """Parse JSON. ValueError if the text is invalid, nested too deeply, or its values would take too much memory."""
    text = content if isinstance(content, str) else content.decode("utf-8")
    allowed = _BASE_BYTES + _BYTES_PER_CHARACTER * len(text)
    if _value_bytes(text, num_same_keys=0) > allowed and _value_bytes(text, _num_repeated_keys(text)) > allowed:
        raise ValueError(f"it holds more values than are read from {len(text):,} characters")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def _value_bytes(text: str, num_same_keys: int) -> int:
    """Upper bound of the bytes that text and values take (CPython, 64 bits).

    A dict takes 192 bytes for one key and 56 or less for each further one; a list 88 with one value; a value's place in
    a list 9, with the list's reserve; a number 32; a string 80, except for keys, of which equal ones are one object.
    """
    num_keys, num_strings = text.count(":"), text.count('"') // 2 - num_same_keys
    containers = 136 * text.count("{") + 56 * num_keys + 88 * text.count("[")
    num_commas = text.count(",")
    num_numbers = max(0, num_commas + 1 - max(0, num_strings - max(0, num_keys - num_same_keys)))
    return 2 * sys.getsizeof(text) + containers + 9 * num_commas + 80 * num_strings + 32 * num_numbers


def _num_repeated_keys(text: str) -> int:
    """How many keys stand in the text before; 0 where there are too many different ones to tell."""
    seen: set[str] = set()
    count = 0
    for match in _KEY.finditer(text):
        count += 1
        seen.add(match[0])
        if len(seen) > _MAX_KEYS:
            return 0
    return count - len(seen)
