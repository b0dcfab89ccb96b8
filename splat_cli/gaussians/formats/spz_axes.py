"""Axes of .spz files, and the extension that states them.

Niantic stores right, up, back (RUB). Files of other programs may hold the axes of a PLY: right, down, forward (RDF).
The extension SPZ_ADOBE_coordinate_system (type 0xADBE0003, https://github.com/nianticlabs/spz/pull/82) settles it: a
record of type, number of bytes and an index into AXES, each 32 bits.
"""

import struct

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.editing.move import flipped, rotated

AXES = (
    "",
    "LDB",
    "RDB",
    "LUB",
    "RUB",
    "LDF",
    "RDF",
    "LUF",
    "RUF",
    "LFD",
    "RFD",
    "LFU",
    "RFU",
    "LBD",
    "RBD",
    "LBU",
    "RBU",
)
"""Directions of x, y and z: left or right, down or up, back or forward. The first is unspecified, for RUB."""
_AS_STORED = {"LFD": "LBU", "RFD": "RBU", "LBU": "LFD", "RBU": "RFD"}
"""The axes that Niantic's library actually stores for four of these systems (measured with @adobe/spz 0.2.3)."""
_COORDINATE_SYSTEM = 0xADBE0003
_RECORD = struct.Struct("<II")
_VALUE = struct.Struct("<I")
_SIGNS = {"R": 1, "L": -1, "D": 1, "U": -1, "F": 1, "B": -1}
_Y_TO_FORWARD = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])
"""Rotation that maps y to the z axis of a PLY, and z to its -y axis."""


def axes_record(axes: str) -> bytes:
    """The record that states the axes."""
    return _RECORD.pack(_COORDINATE_SYSTEM, _VALUE.size) + _VALUE.pack(AXES.index(axes))


def stated_axes(records: bytes) -> str | None:
    """The axes that a file's records state, or None. ValueError if the records are damaged."""
    found = None
    while records:
        if len(records) < _RECORD.size:
            raise ValueError("an extension is truncated")
        kind, size = _RECORD.unpack_from(records)
        content, records = records[_RECORD.size : _RECORD.size + size], records[_RECORD.size + size :]
        if len(content) < size:
            raise ValueError("an extension is truncated")
        if kind == _COORDINATE_SYSTEM:
            if size != _VALUE.size or (code := _VALUE.unpack(content)[0]) >= len(AXES):
                raise ValueError("an unknown coordinate system")
            found = AXES[code] or "RUB"
    return found


def to_ply_axes(splats: SplatArrays, axes: str) -> SplatArrays:
    """The splats, given in `axes`, in those of a PLY."""
    axes = _AS_STORED.get(axes, axes)
    x, y, z = (_SIGNS[letter] for letter in axes)
    if axes[1] in "DU":
        return flipped(splats, (x, y, z))
    return rotated(flipped(splats, (x, y, -z)), _Y_TO_FORWARD)


def from_ply_axes(splats: SplatArrays, axes: str) -> SplatArrays:
    """The splats, given in the axes of a PLY, in `axes`, RUB or RDF."""
    return to_ply_axes(splats, axes)  # flips are their own inverse
