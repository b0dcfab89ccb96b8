"""Procedural patterns: colours, noise, stripes. All arrays float32; colours are linear RGB [3, n]."""

import functools

import numpy as np

SIDE = 128
_LATTICE = np.pad(np.random.default_rng(7).random((SIDE, SIDE), dtype=np.float32), (0, 1), mode="wrap")


@functools.cache
def rgb(code: str) -> np.ndarray:
    """The linear colour [3, 1] of an sRGB code such as "c0ffee"."""
    encoded = np.array([int(code[i : i + 2], 16) for i in (0, 2, 4)], np.float32)[:, None] / 255
    return encoded**2.2


@functools.cache
def palette(*codes: str) -> np.ndarray:
    """Linear colours [3, k]."""
    return np.concatenate([rgb(code) for code in codes], axis=1)


def mix(a: np.ndarray, b: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Interpolation of `a` (weight 0) and `b` (weight 1 or true)."""
    difference = b - a
    if weight.dtype == bool:
        return np.where(weight, a + difference, a)
    return a + difference * weight.astype(np.float32, copy=False)


def smooth(low: float, high: float, x: np.ndarray) -> np.ndarray:
    """0 below `low`, 1 above `high`, a cubic between."""
    return _ease(np.clip((x - low) / (high - low), 0, 1))


def _ease(t: np.ndarray) -> np.ndarray:
    """A cubic from 0 to 1 that is flat at both ends."""
    return t * t * (3 - 2 * t)


def noise(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Smooth noise in 0..1 with features of size 1."""
    column, row = np.floor(x), np.floor(y)
    u, v = _ease(x - column), _ease(y - row)
    first = _cell(column, row)
    low, high = _LATTICE.take(first), _LATTICE.take(first + SIDE + 1)
    low += (_LATTICE.take(first + 1) - low) * u
    high += (_LATTICE.take(first + SIDE + 2) - high) * u
    return low + (high - low) * v


def cell_random(column: np.ndarray, row: np.ndarray) -> np.ndarray:
    """A fixed random number in 0..1 for each pair of integers."""
    return _LATTICE.take(_cell(column * 11 + row, row * 37))


def _cell(column: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Lattice index, periodic, of a pair of integers."""
    return (row.astype(np.int32) & (SIDE - 1)) * (SIDE + 1) + (column.astype(np.int32) & (SIDE - 1))


def wood(along: np.ndarray, across: np.ndarray, dark: np.ndarray, light: np.ndarray) -> np.ndarray:
    """Grain along the first coordinate (metres)."""
    bend = noise(along * 2, across * 6)
    grain = 0.5 + 0.5 * np.sin(2 * np.pi * (across * 9 + bend * 1.4))
    return mix(dark, light, 0.45 * grain + 0.55 * noise(along * 4, across * 30))
