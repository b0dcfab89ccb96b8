"""glTF binary (.glb) with the extension KHR_gaussian_splatting: splats as points with float attributes.

Scales are standard deviations, opacities 0 to 1, quaternions x y z w; a vector for each coefficient of the spherical
harmonics. The axes are left, up, forward; in a PLY right, down, forward: half a turn about z.
"""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli import __version__
from splat_cli.errors import FormatError, reason_of
from splat_cli.gaussians.arrays import SH_C0, SH_DEGREE_FROM_COEFFICIENTS, SplatArrays, opacities
from splat_cli.gaussians.editing.edits import merged
from splat_cli.gaussians.editing.move import rotated
from splat_cli.gaussians.formats.quantize import opacity_bytes, to_bytes, unit_quats
from splat_cli.gaussians.formats.spz import read_spz, spz_content
from splat_cli.gaussians.ply import finite_splats
from splat_cli.io.files import replacing
from splat_cli.io.json_input import entry, json_object, objects, read_bytes

EXTENSION = "KHR_gaussian_splatting"
SPZ_EXTENSION = "KHR_gaussian_splatting_compression_spz_2"
"""A draft: an .spz in its own axes (RUB) instead of the arrays; readers convert them to those of glTF."""
_HEADER, _CHUNK = struct.Struct("<4sII"), struct.Struct("<I4s")
_TYPES = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5126: "<f4"}
"""Component type -> dtype."""
_WIDTHS = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}
_VERTICES = 34962
"""The target of a buffer view that holds attributes."""
_INDICES = 34963
"""The target of a buffer view that holds indices."""
_UNLIT = "KHR_materials_unlit"
_HALF_TURN = np.diag([-1.0, -1.0, 1.0])
_MAX_LOG_SCALE = 80.0
_LEAST_OPACITY = 1e-7
"""Minimum of opacities, and of their distance from 1, which keeps logits finite."""
_MOVES = ("matrix", "translation", "rotation", "scale")
_POINTS = 0
_ANTIALIASED = "antialiased"
"""Key in the extras of a primitive: the extension does not define it."""
_LOOK = {
    "kernel": "ellipse",
    "colorSpace": "srgb_rec709_display",
    "sortingMethod": "cameraDistance",
    "projection": "perspective",
}


def write_container(document: dict[str, Any], content: bytes) -> bytes:
    """Content of a .glb with a JSON document and its buffer."""
    text = json.dumps(document, separators=(",", ":")).encode()
    chunks = b"".join(
        _CHUNK.pack(len(data) + -len(data) % 4, kind) + data + filler * (-len(data) % 4)
        for kind, data, filler in ((b"JSON", text, b" "), (b"BIN\0", content, b"\0"))
    )
    return _HEADER.pack(b"glTF", 2, _HEADER.size + len(chunks)) + chunks


def read_container(data: bytes) -> tuple[dict[str, Any], memoryview]:
    """(JSON document, buffer) of a .glb; ValueError if it is invalid."""
    magic, version, length = _HEADER.unpack_from(data.ljust(_HEADER.size, b"\0"))
    if (magic, version) != (b"glTF", 2):
        raise ValueError("it does not begin as glTF 2 does")
    if length > len(data):
        raise ValueError(f"it declares {length} bytes and holds {len(data)}")
    chunks: dict[bytes, memoryview] = {}
    offset = _HEADER.size
    while offset < length:
        size, kind = _CHUNK.unpack_from(data[offset : offset + _CHUNK.size].ljust(_CHUNK.size, b"\0"))
        offset += _CHUNK.size + size
        if offset > length:
            raise ValueError("a chunk extends beyond the end of the file")
        chunks.setdefault(kind, memoryview(data)[offset - size : offset])
    if not {b"JSON", b"BIN\0"} <= chunks.keys():
        raise ValueError("it lacks its JSON or its buffer")
    return json_object(bytes(chunks[b"JSON"])), chunks[b"BIN\0"]


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
    """Arrays of a document's accessors. Their total size is limited to that of the buffer: accessors share no data."""

    def __init__(self, document: dict[str, Any], content: memoryview) -> None:
        self.document, self.content = document, content
        self.unread = len(content)

    def read_view(self, number: int) -> bytes:
        """Content of a buffer view. ValueError if it is invalid."""
        view = entry(entry(self.document, "bufferViews", list), number, dict, name="buffer view")
        begin, size = entry(view, "byteOffset", int, 0), entry(view, "byteLength", int)
        if entry(view, "buffer", int, 0) != 0 or begin < 0 or size < 0 or begin + size > len(self.content):
            raise ValueError(f"buffer view {number} is not inside the file's own buffer")
        self._count(size)
        return bytes(self.content[begin : begin + size])

    def _count(self, size: int) -> None:
        self.unread -= size
        if self.unread < 0:
            raise ValueError("its accessors read parts of the buffer more than once")

    def read(self, number: int, width: int) -> np.ndarray:
        """Array float32 [N, width] of an accessor; integers are normalised. ValueError if it is invalid."""
        accessor = entry(entry(self.document, "accessors", list), number, dict, name="accessor")
        views = entry(self.document, "bufferViews", list)
        view = entry(views, entry(accessor, "bufferView", int), dict, name="buffer view")
        kind = _TYPES.get(entry(accessor, "componentType", int))
        is_own = "sparse" not in accessor and entry(view, "buffer", int, 0) == 0
        if kind is None or _WIDTHS.get(entry(accessor, "type", str)) != width or not is_own:
            raise ValueError(f"accessor {number} is not a plain array of {width} numbers in the file's own buffer")
        dtype = np.dtype(kind)
        if dtype.kind != "f" and accessor.get("normalized") is not True:
            raise ValueError(f"accessor {number} has whole numbers that are not normalized")
        row = width * dtype.itemsize
        count, stride = entry(accessor, "count", int), entry(view, "byteStride", int, row)
        begin, size = entry(view, "byteOffset", int, 0) + entry(accessor, "byteOffset", int, 0), len(self.content)
        is_inside = 0 <= begin <= size and row <= stride <= max(size, row)
        if count < 0 or not is_inside or begin + (count - 1) * stride + row > size:
            raise ValueError(f"accessor {number} declares {count} elements, more than the buffer holds")
        self._count(count * row)
        array = np.ndarray((count, width), dtype, self.content, begin, (stride, dtype.itemsize))
        if dtype.kind == "f":
            return array.astype(np.float32)
        return np.maximum(array / np.float32(np.iinfo(dtype).max), -1).astype(np.float32)


def write_glb(path: Path, splats: SplatArrays) -> None:
    """Write one mesh of points; COLOR_0 is for viewers without the extension."""
    document: dict[str, Any] = {"accessors": [], "bufferViews": []}
    content = bytearray()
    places = {name: add_array(document, content, array) for name, array in _attributes(splats).items()}
    _write_splats(path, document, places, bytes(content), {EXTENSION: _LOOK}, splats.antialiased)


def write_spz_glb(path: Path, splats: SplatArrays) -> None:
    """Write one mesh of points whose attributes are compressed as .spz of version 3, as Cesium's viewer reads them."""
    content = spz_content(splats)
    document: dict[str, Any] = {"accessors": [], "bufferViews": [{"buffer": 0, "byteLength": len(content)}]}
    places = {}
    for name, array in _attributes(splats).items():
        places[name] = add_array(document, bytearray(), array)
        del document["bufferViews"][-1], document["accessors"][-1]["bufferView"]  # the .spz has the data
    look = _LOOK | {"extensions": {SPZ_EXTENSION: {"bufferView": 0}}}
    _write_splats(path, document, places, content, {EXTENSION: look}, splats.antialiased)


def _attributes(splats: SplatArrays) -> dict[str, np.ndarray]:
    """Attribute -> array [N, W], in the axes of glTF."""
    splats = rotated(splats, _HALF_TURN)
    color = to_bytes(255 * (0.5 + SH_C0 * splats.sh0.astype(np.float64)))
    log_scales = np.clip(splats.log_scales, -_MAX_LOG_SCALE, _MAX_LOG_SCALE)
    attributes = {
        "POSITION": splats.means,
        "COLOR_0": np.concatenate([color, opacity_bytes(splats)[:, None]], axis=1),
        f"{EXTENSION}:ROTATION": np.roll(unit_quats(splats.quats), -1, axis=1).astype("<f4"),
        f"{EXTENSION}:SCALE": np.exp(log_scales),
        f"{EXTENSION}:OPACITY": opacities(splats).astype("<f4")[:, None],
    }
    sh = np.concatenate([splats.sh0[:, None], splats.shN], axis=1)
    return attributes | {name: np.ascontiguousarray(sh[:, k]) for k, name in enumerate(_sh_names(splats.sh_degree))}


def _write_splats(
    path: Path, document: dict[str, Any], places: dict[str, int], content: bytes, extensions: dict[str, Any],
    antialiased: bool,
) -> None:  # fmt: skip
    """Write a file with one primitive of points. places: accessor of each attribute."""
    primitive = {"attributes": places, "mode": _POINTS, "extensions": extensions}
    if antialiased:
        primitive["extras"] = {_ANTIALIASED: True}
    names = [EXTENSION, *extensions[EXTENSION].get("extensions", ())]
    document |= {
        "asset": {"version": "2.0", "generator": f"splat {__version__}"},
        "extensionsUsed": names,
        **({"extensionsRequired": names} if len(names) > 1 else {}),
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [primitive]}],
        "buffers": [{"byteLength": len(content)}],
    }
    with replacing(path) as temporary:
        temporary.write_bytes(write_container(document, content))


def linear_from_srgb(colors: np.ndarray) -> np.ndarray:
    """Linear colours float32, 0 to 1, of sRGB colours uint8, as vertex colours of glTF are."""
    value = colors / np.float32(255)
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4).astype(np.float32)


def write_mesh_glb(path: Path, vertices: np.ndarray, colors: np.ndarray, faces: np.ndarray) -> None:
    """Write triangles: vertices float32 [V, 3] in the axes of a PLY, colors uint8 [V, 3] sRGB, faces int [F, 3].

    The material is unlit: the colours contain the light of the photographs.
    """
    document: dict[str, Any] = {"accessors": [], "bufferViews": []}
    content = bytearray()
    position = add_array(document, content, vertices @ _HALF_TURN.astype(np.float32))
    color = add_array(document, content, linear_from_srgb(colors))
    indices = faces.astype("<u4").tobytes()
    view = {"buffer": 0, "byteOffset": len(content), "byteLength": len(indices), "target": _INDICES}
    document["accessors"].append(
        {"bufferView": len(document["bufferViews"]), "componentType": 5125, "count": faces.size, "type": "SCALAR"}
    )
    document["bufferViews"].append(view)
    content += indices
    attributes = {"POSITION": position, "COLOR_0": color}
    primitive = {"attributes": attributes, "indices": len(document["accessors"]) - 1, "material": 0}
    document |= {
        "asset": {"version": "2.0", "generator": f"splat {__version__}"},
        "extensionsUsed": [_UNLIT],
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [primitive]}],
        "materials": [{"extensions": {_UNLIT: {}}, "doubleSided": True}],
        "buffers": [{"byteLength": len(content)}],
    }
    with replacing(path) as temporary:
        temporary.write_bytes(write_container(document, bytes(content)))


def read_glb(path: Path) -> SplatArrays:
    """Read the splats of all meshes. FormatError if the file is damaged, has no splats, or transforms them by nodes."""
    try:
        document, content = read_container(read_bytes(path))
        for name in entry(document, "extensionsRequired", list, []):
            if name not in (EXTENSION, SPZ_EXTENSION):
                raise ValueError(f"it requires {ascii(name)[:40]}, which is not read")
        primitives = [
            primitive
            for mesh in objects(document, "meshes")
            for primitive in objects(mesh, "primitives")
            if EXTENSION in entry(primitive, "extensions", dict, {})
        ]
        moved = {key for node in objects(document, "nodes", []) for key in _MOVES if key in node}
        if not primitives or moved:
            reason = f"nodes with {', '.join(sorted(moved))}" if moved else "no splats"
            raise FormatError(f"{path} has {reason}; give a .glb with {EXTENSION} points and without transforms")
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # non-finite splats are dropped
            reader = ArrayReader(document, content)
            parts = [_read_primitive(path, reader, primitive) for primitive in primitives]
            return finite_splats(merged(parts))
    except ValueError as error:
        raise FormatError(
            f"{path} is not a readable .glb with {EXTENSION} ({reason_of(error)}); export it again"
        ) from error


def _read_primitive(path: Path, reader: ArrayReader, primitive: dict[str, Any]) -> SplatArrays:
    """Splats of a primitive, in the axes of a PLY."""
    own = entry(entry(primitive, "extensions", dict), EXTENSION, dict)
    for key in ("kernel", "colorSpace", "projection"):
        if own.get(key, _LOOK[key]) != _LOOK[key]:
            raise ValueError(f"its `{key}` is {str(own[key])[:40]!a}, only {_LOOK[key]} is read")
    compressed = entry(own, "extensions", dict, {}).get(SPZ_EXTENSION)
    if isinstance(compressed, dict):
        return read_spz(path, content=reader.read_view(entry(compressed, "bufferView", int)))
    return rotated(_read_arrays(reader, primitive), _HALF_TURN)


def _read_arrays(reader: ArrayReader, primitive: dict[str, Any]) -> SplatArrays:
    """Splats of a primitive without compression, in the axes of the file."""
    attributes, extras = entry(primitive, "attributes", dict), primitive.get("extras")
    means = reader.read(entry(attributes, "POSITION", int), 3)

    def array(name: str, width: int) -> np.ndarray:
        values = reader.read(entry(attributes, name, int), width)
        if len(values) != len(means):
            raise ValueError(f"it has {len(means)} positions and {len(values)} values of {name!a}")
        return values

    k = sum(name.startswith(f"{EXTENSION}:SH_DEGREE_") for name in attributes) - 1
    if k not in SH_DEGREE_FROM_COEFFICIENTS:
        raise ValueError(f"{k + 1} coefficients of spherical harmonics are not those of degree 0 to 3")
    sh = np.stack([array(name, 3) for name in _sh_names(SH_DEGREE_FROM_COEFFICIENTS[k])], axis=1)
    opacity = np.clip(array(f"{EXTENSION}:OPACITY", 1)[:, 0].astype(float), _LEAST_OPACITY, 1 - _LEAST_OPACITY)
    return SplatArrays(
        means=means,
        log_scales=np.log(array(f"{EXTENSION}:SCALE", 3)),
        quats=np.roll(array(f"{EXTENSION}:ROTATION", 4), 1, axis=1),
        logit_opacities=np.log(opacity / (1 - opacity)).astype(np.float32),
        sh0=sh[:, 0],
        shN=np.ascontiguousarray(sh[:, 1:]),
        antialiased=isinstance(extras, dict) and extras.get(_ANTIALIASED) is True,
    )


def _sh_names(degree: int) -> list[str]:
    """Attribute names of the coefficients, the constant one first."""
    return [f"{EXTENSION}:SH_DEGREE_{d}_COEF_{m}" for d in range(degree + 1) for m in range(2 * d + 1)]
