"""Rotation matrices from quaternions, on host or device."""

from __future__ import annotations

from typing import Any


def rotations(xp: Any, quats: Any) -> Any:
    """Rotation matrices [K, 3, 3] of raw quaternions [4, K] (wxyz)."""
    w, x, y, z = quats / xp.maximum(xp.linalg.norm(quats, axis=0), 1e-12)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)
