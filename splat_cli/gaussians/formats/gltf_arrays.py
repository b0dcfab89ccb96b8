"""Container of glTF binary, and arrays in its buffer."""

import json
import struct
from typing import Any

import numpy as np

from splat_cli.json_input import parse_json

EXTENSION = "KHR_gaussian_splatting"
_HEADER, _CHUNK = struct.Struct("<4sII"), struct.Struct("<I4s")
_TYPES = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5126: "<f4"}
"""Component type -> dtype."""
_WIDTHS = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}
_VERTICES = 34962
"""The target of a buffer view that holds attributes."""


def write_container(document: dict[str, Any], content: bytes) -> bytes:
    """Content of a .glb with a JSON document and its buffer."""
    text = json.dumps(document, separators=(",", ":")).encode()
    chunks = b"".join(
        _CHUNK.pack(len(data) + -len(data) % 4, kind) + data + filler * (-len(data) % 4)
        for kind, data, filler in ((b"JSON", text, b" "), (b"BIN\0", content, b"\0"))
    )
    return _HEADER.pack(b"glTF", 2, _HEADER.size + len(chunks)) + chunks


def read_container(data: bytes) -> tuple[Any, memoryview]:
    """(JSON document, buffer) of a .glb; ValueError or struct.error if it is invalid."""
    magic, version, length = _HEADER.unpack_from(data)
    if (magic, version) != (b"glTF", 2) or length > len(data):
        raise ValueError(f"no glTF 2 file of {length} bytes")
    chunks: dict[bytes, memoryview] = {}
    offset = _HEADER.size
    while offset < length:
        size, kind = _CHUNK.unpack_from(data, offset)
        offset += _CHUNK.size + size
        if offset > length:
            raise ValueError("a chunk extends beyond the end of the file")
        chunks.setdefault(kind, memoryview(data)[offset - size : offset])
    return parse_json(bytes(chunks[b"JSON"])), chunks[b"BIN\0"]


def add_array(document: dict[str, Any], content: bytearray, array: np.ndarray) -> int:
    """Append an array [N, W], float32 or uint8 (normalised), to the buffer; returns the index of its accessor."""
    is_float = array.dtype.kind == "f"
    width = array.shape[1]
    accessor: dict[str, Any] = {
        "bufferView": len(document["bufferViews"]),
        "componentType": 5126 if is_float else 5121,
        "count": len(array),
        "type": next(name for name, number in _WIDTHS.items() if number == width),
    }
    if not is_float:
        accessor["normalized"] = True
    elif not document["accessors"] and len(array):  # positions, for which bounds are required
        accessor |= {"min": array.min(axis=0).tolist(), "max": array.max(axis=0).tolist()}
    view = {"buffer": 0, "byteOffset": len(content), "byteLength": array.nbytes, "target": _VERTICES}
    document["bufferViews"].append(view)
    document["accessors"].append(accessor)
    content += array.astype("<f4" if is_float else "u1").tobytes()
    return len(document["accessors"]) - 1


class ArrayReader:
    """Arrays of a document's accessors. The total size is limited to that of the buffer: splats share no data."""

    def __init__(self, document: Any, content: memoryview) -> None:
        self.document, self.content = document, content
        self.unread = len(content)

    def read(self, number: int, width: int) -> np.ndarray:
        """Array float32 [N, width] of an accessor; integers are normalised. ValueError if it is invalid."""
        accessor = self.document["accessors"][number]
        view = self.document["bufferViews"][accessor["bufferView"]]
        dtype = np.dtype(_TYPES[accessor["componentType"]])
        count, stride = accessor["count"], view.get("byteStride", width * dtype.itemsize)
        begin = view.get("byteOffset", 0) + accessor.get("byteOffset", 0)
        if _WIDTHS[accessor["type"]] != width or "sparse" in accessor or view.get("buffer", 0) != 0:
            raise ValueError(f"accessor {number} is not a plain array of {width} numbers in the file's own buffer")
        row = width * dtype.itemsize
        if min(count, begin) < 0 or stride < row or begin + (count - 1) * stride + row > len(self.content):
            raise ValueError(f"accessor {number} declares {count} elements, more than the buffer holds")
        self.unread -= count * row
        if self.unread < 0:
            raise ValueError("its accessors read parts of the buffer more than once")
        array = np.ndarray((count, width), dtype, self.content, begin, (stride, dtype.itemsize))
        if dtype.kind == "f":
            return array.astype(np.float32)
        return np.maximum(array / np.float32(np.iinfo(dtype).max), -1).astype(np.float32)
