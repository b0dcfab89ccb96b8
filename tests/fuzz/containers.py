"""Valid zip, gzip, zstd, glTF and NumPy files with unexpected contents."""

import gzip
import hashlib
import io
import json
import struct
import warnings
import zipfile

import numpy as np

from tests.fuzz.mutate import mutate
from tests.fuzz.pictures import picture
from tests.fuzz.trees import changed_tree, json_bytes, odd_bytes

_METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
_BOMB = 40_000_000


def forge_zip(whole, rng, forge_member):
    """The archive again, with members changed, repeated, renamed, dropped, enlarged or compressed in another way."""
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    for _ in range(rng.integers(1, 3)):
        place = int(rng.integers(len(members)))
        name, content = members[place]
        kind = rng.random()
        if kind < 0.75:
            members[place] = name, forge_member(name, content, rng)
        elif kind < 0.8:
            members[place] = name, bytes(_BOMB) if rng.random() < 0.1 else content + bytes(100_000)
        elif kind < 0.9:
            members.append((name, content))
        else:
            members[place] = str(rng.choice(["x", "../" + name, "sparse/1/" + name, name.upper()])), content
    target = io.BytesIO()
    method = _METHODS[rng.choice(4, p=[0.5, 0.4, 0.05, 0.05])]
    with warnings.catch_warnings(), zipfile.ZipFile(target, "w", method) as archive:
        warnings.simplefilter("ignore")  # about duplicate names
        for name, content in members:
            archive.writestr(name, content)
    forged = bytearray(target.getvalue())
    if rng.random() < 0.1:  # a directory with a wrong size
        place = forged.find(b"PK\1\2") + int(rng.choice([20, 24]))
        struct.pack_into("<I", forged, place, int(rng.choice([0, 1, 1000, 2**31, 2**32 - 2])))
    return bytes(forged)


def forge_sog(whole, rng):
    return forge_zip(whole, rng, _sog_member)


def _sog_member(name, content, rng):
    if name == "meta.json":
        return json_bytes(changed_tree(json.loads(content.rstrip(b"\0")), rng))
    return picture(rng) if rng.random() < 0.8 else mutate(content, rng)


def odd_array(array, rng):
    """An array of another type, shape or content; in four of five cases, of the same kind of type."""
    kind = rng.random()
    if kind < 0.3:
        changed = array.copy().reshape(-1)
        if changed.size and changed.dtype.kind == "f":
            changed[rng.integers(changed.size, size=3)] = rng.choice([np.nan, np.inf, -np.inf, 1e30, -1e4, 0])
        return changed.reshape(array.shape)
    if kind < 0.5:
        return array.astype(str(rng.choice(["f2", "f8", ">f4", "i4", "u1", "c8", "U3", "S2", "?", "M8[s]"])))
    if kind < 0.8:
        shapes = ((0,), (), (-1,), (1, *array.shape), array.shape[:-1], (*array.shape, 1), array.shape[::-1], (3, 0))
        return np.resize(array, tuple(max(side, 7) if side < 0 else side for side in shapes[rng.integers(len(shapes))]))
    return np.zeros(tuple(rng.integers(0, 70, rng.integers(0, 4))), array.dtype)


def forge_npz(whole, rng):
    """A file whose header is JSON in bytes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _forged_npz(whole, rng)


def _forged_npz(whole, rng):
    with np.load(io.BytesIO(whole)) as file:
        arrays = dict(file)
    if rng.random() < 0.6:
        text = json_bytes(changed_tree(json.loads(arrays["header"].tobytes()), rng))
        arrays["header"] = np.frombuffer(text, np.uint8)
    for _ in range(rng.integers(0, 3)):
        name = str(rng.choice(list(arrays)))
        kind = rng.random()
        if kind < 0.8:
            arrays[name] = odd_array(arrays[name], rng)
        elif kind < 0.9:
            del arrays[name]
        else:
            arrays[name + "x"] = arrays.pop(name)
        if not arrays:
            break
    target = io.BytesIO()
    (np.savez_compressed if rng.random() < 0.05 else np.savez)(target, **arrays)
    return target.getvalue()


def forge_checkpoint(whole, rng):
    """A file with a correct checksum."""
    forged = forge_npz(whole[:-64], rng)
    return forged + hashlib.sha256(forged).hexdigest().encode()


def forge_glb(whole, rng):
    """Intact chunks around a changed document and a changed buffer."""
    length = struct.unpack_from("<I", whole, 12)[0]
    document, content = json.loads(whole[20 : 20 + length]), whole[28 + length :]
    if rng.random() < 0.85:
        document = changed_tree(document, rng)
    if rng.random() < 0.3:
        content = mutate(content, rng) if rng.random() < 0.7 else odd_bytes(int(rng.integers(0, 4000)), rng)
    chunks = [(b"JSON", json_bytes(document)), (b"BIN\0", content)]
    if rng.random() < 0.1:
        chunks = [chunks[i] for i in rng.integers(0, 2, rng.integers(0, 4))]
    body = b"".join(
        struct.pack("<I4s", len(data) + -len(data) % 4, kind) + data + b" " * (-len(data) % 4) for kind, data in chunks
    )
    return struct.pack("<4sII", b"glTF", 2, 12 + len(body)) + body


_HEADER = "<4sIIBBBB"


def _odd_header(content, rng):
    """(header of an .spz with a field or two changed, its number of splats, SH degree)."""
    fields = list(struct.unpack_from(_HEADER, content))
    for _ in range(rng.integers(0, 3)):
        place = int(rng.integers(1, 7))
        fields[place] = int(
            rng.choice([0, 1, 2, 3, 4, 5, 23, 24, 200, 255] + ([70_000, 1_000_000, 2**32 - 1] * (place < 3)))
        )
    return fields


def forge_spz(whole, rng):
    """A gzip stream, or zstd streams, of random bytes, of about the length that the header states."""
    fields = _odd_header(gzip.decompress(whole), rng)
    n, degree = fields[2], min(fields[3], 4)
    widths = [9, 1, 3, 3, 3 if fields[1] == 2 else 4, 3 * ((degree + 1) ** 2 - 1)]
    total = min(n * sum(widths), 3_000_000) if rng.random() < 0.8 else int(rng.integers(0, 2000))
    if rng.random() < 0.6:
        return gzip.compress(struct.pack(_HEADER, *fields) + odd_bytes(total, rng), compresslevel=1)
    return _version_4(fields, [width for width in widths if width], rng)


def _version_4(fields, widths, rng):
    import zstandard

    if rng.random() < 0.9:
        fields[1] = 4
    sizes = [min(fields[2] * width, 3_000_000) for width in widths]
    if rng.random() < 0.2:
        sizes[rng.integers(len(sizes))] = int(rng.integers(0, 2000))
    streams = [
        zstandard.ZstdCompressor(write_content_size=rng.random() < 0.9).compress(odd_bytes(s, rng)) for s in sizes
    ]
    table = [(len(stream), size) for stream, size in zip(streams, sizes, strict=True)]
    if rng.random() < 0.2:
        table[rng.integers(len(table))] = tuple((0, 1, 100, 2**40, 2**64 - 1)[i] for i in rng.integers(0, 5, 2))
    header = (
        struct.pack(_HEADER, *fields)
        + struct.pack("<I", int(rng.choice([32, 32, 32, 32, 0, 16, 2**32 - 1])))
        + bytes(12)
    )
    return header + b"".join(struct.pack("<QQ", *row) for row in table) + b"".join(streams)
