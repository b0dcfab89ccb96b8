"""PLY files and COLMAP models of complete records with unexpected numbers, names and properties."""

import struct

import numpy as np

from tests.fuzz.trees import odd_bytes

_TYPES = ("char", "uchar", "short", "ushort", "int", "uint", "float", "double", "uint8", "float32", "float64", "half")
_SIZES = {"char": 1, "uchar": 1, "uint8": 1, "short": 2, "ushort": 2, "double": 8, "float64": 8}
_DOUBLES = (0.0, -0.0, 1.0, -1.0, 1e-320, 1e38, 1e39, 1e300, np.nan, np.inf, -np.inf, 0.5, 20.0, 3.5e4)
_COUNTS = (0, 1, 2, 3, 7, 255, 65535, 2**31 - 1, 2**31, 2**32 - 1)
_NAMES = (
    b"a.png",
    b"b.png",
    b"",
    b"../a.png",
    b"/etc/passwd",
    b"\xff\xfe",
    b"a" * 5000,
    b"x\ny",
    b"\x1b[2J",
    b"a.png/b",
    b".",
)


def forge_ply(whole, rng):
    """A header with other types, properties, elements and formats, and the bytes that it declares."""
    header, _, body = whole.partition(b"end_header\n")
    lines = header.decode("ascii").splitlines()
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(1, len(lines)))
        words = lines[place].split() or ["comment"]
        kind = rng.random()
        if words[0] == "property" and kind < 0.5:
            words[1 if kind < 0.4 else -1] = str(rng.choice([*_TYPES, "list uchar int", "x", "red", "packed_position"]))
        elif words[0] == "element":
            words[2] = str(rng.choice(["0", "1", "2", "5", "1000", "70000", "-1", "9" * 15, "1e3", "٣"]))
            words[1] = str(rng.choice(["vertex", "vertex", "vertex", "chunk", "sh", "face"]))
        elif words[0] == "format":
            words[1] = str(rng.choice(["ascii", "binary_little_endian", "binary_big_endian", "binary"]))
        elif kind < 0.8:
            lines.insert(place, lines[rng.integers(1, len(lines))])
        else:
            words = []
        lines[place] = " ".join(words)
    header = "\n".join(line for line in lines if line)
    return header.encode() + b"\nend_header\n" + _ply_body(header, body, rng)


def _ply_body(header, body, rng):
    """Bytes or lines for these elements; at most a few megabytes."""
    lines = [line.split() for line in header.splitlines()]
    counts, widths = [], []
    for words in lines:
        if words[:1] == ["element"] and len(words) == 3:
            counts.append(int(words[2]) if words[2].isascii() and words[2].isdecimal() else 0)
            widths.append([])
        elif words[:1] == ["property"] and widths:
            widths[-1].append(_SIZES.get(words[1], 4))
    if ["format", "ascii", "1.0"] in lines:
        rows = [
            " ".join(
                str(
                    rng.choice(
                        ["0", "1", "-1.5", "nan", "1e999", "x", "300"], p=[0.5, 0.3, 0.15, 0.02, 0.01, 0.01, 0.01]
                    )
                )
                for _ in width
            )
            for count, width in zip(counts, widths, strict=True)
            for _ in range(min(count, 50))
        ]
        return "\n".join(rows).encode()
    total = min(sum(count * sum(width) for count, width in zip(counts, widths, strict=True)), 2_000_000)
    kept = body[: total if rng.random() < 0.5 else 0]
    return kept + odd_bytes(total - len(kept), rng)


def _doubles(count, rng):
    usual, odd = rng.normal(size=count), rng.choice(_DOUBLES, count)
    return np.where(rng.random(count) < 0.9, usual, odd)


def _count(rng, usual):
    return usual if rng.random() < 0.8 else int(rng.choice(_COUNTS))


def _name(rng):
    return bytes(_NAMES[rng.integers(len(_NAMES)) if rng.random() < 0.3 else rng.integers(2)])


def forge_cameras_bin(whole, rng):
    """Cameras of any model with their parameters; sometimes more or fewer than declared."""
    number = int(rng.integers(0, 4))
    records = []
    for index in range(number):
        model = int(rng.integers(-1, 20)) if rng.random() < 0.3 else int(rng.integers(0, 17))
        num_params = (3, 4, 4, 5, 8, 8, 12, 5, 4, 5, 12, 16, 4, 5, 3, 4, 6, 2)[model % 18]
        size = (40, 30) if rng.random() < 0.7 else tuple(int(side) for side in rng.choice(_COUNTS, 2))
        params = 20 * _doubles(num_params, rng)
        records.append(struct.pack(f"<IiQQ{num_params}d", _count(rng, 3 + index), model, *size, *params))
    return struct.pack("<Q", _count(rng, number)) + b"".join(records)


def forge_images_bin(whole, rng):
    number = int(rng.integers(0, 6))
    records = []
    for index in range(number):
        observations = int(rng.integers(0, 4))
        records.append(
            struct.pack("<I7dI", _count(rng, index + 1), *_doubles(7, rng), int(rng.choice([3, 4, 3, 4, 9])))
            + _name(rng).replace(b"\0", b"")
            + b"\0"
            + struct.pack("<Q", _count(rng, observations))
            + odd_bytes(24 * observations, rng)
        )
    return struct.pack("<Q", _count(rng, number)) + b"".join(records)


def forge_points_bin(whole, rng):
    number = int(rng.integers(0, 200))
    records = []
    for index in range(number):
        track = int(rng.integers(0, 4))
        color, error = rng.integers(0, 256, 3), _doubles(1, rng)
        color, error = rng.integers(0, 256, 3), _doubles(1, rng)
        head = struct.pack("<Q3d3BdQ", index, *_doubles(3, rng), *color, *error, _count(rng, track))
        records.append(head + odd_bytes(8 * track, rng))
    return struct.pack("<Q", _count(rng, number)) + b"".join(records)


_WORDS = (
    "nan",
    "inf",
    "-1",
    "0",
    "1e999",
    "99999999999999999999",
    "9" * 5000,
    "x",
    "PINHOLE",
    "FOV",
    "#",
    "",
    "1_0",
    "٣",
    "0x10",
    "1e3",
    "a.png",
    "../b",
    "\x1b[2J",
    "\0",
)


def forge_colmap_text(whole, rng):
    """Lines with the usual number of words, some of them wrong."""
    lines = [line.split(" ") for line in whole.decode().splitlines()]
    for _ in range(rng.integers(1, 5)):
        line = lines[rng.integers(len(lines))]
        place = int(rng.integers(len(line)))
        line[place] = str(rng.choice(_WORDS))
        if rng.random() < 0.2:
            lines.insert(int(rng.integers(len(lines))), list(line))
        if rng.random() < 0.1:
            line.append(str(rng.choice(_WORDS)))
    return "\n".join(" ".join(line) for line in lines).encode("utf-8", "surrogateescape")


def forge_csv(whole, rng):
    """Lines with commas between the words."""
    return forge_colmap_text(whole.replace(b",", b" "), rng).replace(b" ", b",")


COLMAP = {"cameras.bin": forge_cameras_bin, "images.bin": forge_images_bin, "points3D.bin": forge_points_bin}


def forge_model_member(name, content, rng):
    """A file of a model in a zip file."""
    return COLMAP[name](content, rng) if name in COLMAP else odd_bytes(100, rng)
