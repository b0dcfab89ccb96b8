"""Patterns of colours, noise and stripes, and the textures of the objects in a room.

Points are metres from the centre of an object, in its own axes. Arrays are float32; colours are linear RGB [3, n].
"""

import functools

import numpy as np

from splat_cli.sample.shapes import Texture

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


def plain(code: str, spread: float = 0.0, scale: float = 8.0) -> Texture:
    """One colour, with noise of relative size `spread` and `scale` features per metre."""

    def texture(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
        x, y, z = points
        return rgb(code) * (1 - spread + 2 * spread * noise((x + 0.3 * z) * scale, (y + z) * scale))

    return texture


def timber(dark: str, light: str) -> Texture:
    """Wood with its grain along x."""

    def texture(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
        return wood(points[0], points[1] + 0.7 * points[2], rgb(dark), rgb(light))

    return texture


def bands(codes: tuple[str, ...], height: float, wave: float = 0.0, waves: int = 6) -> Texture:
    """Horizontal bands of `height` metres with `waves` ripples of `wave` metres around the object."""

    def texture(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
        x, y, z = points
        level = (z + wave * np.sin(waves * np.arctan2(y, x))) / height
        return palette(*codes)[:, np.floor(level).astype(np.int64) % len(codes)]

    return texture


def sectors(codes: tuple[str, ...], cap: str, cap_height: float) -> Texture:
    """Slices around the vertical, like on a beach ball, with caps beyond +-`cap_height` metres."""

    def texture(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
        x, y, z = points
        slice_ = np.floor((np.arctan2(y, x) / (2 * np.pi) + 0.5) * len(codes)).astype(np.int64) % len(codes)
        return mix(palette(*codes)[:, slice_], rgb(cap), np.abs(z) > cap_height)

    return texture


def book(cover: str, height: float) -> Texture:
    """A lying book: covers, pages on three sides, a spine at -y with a gilt band. `height` is half its thickness."""

    def texture(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
        x, y, z = points
        pages = rgb("efe6cf") * (0.8 + 0.2 * np.sin(z * 600))
        paper = (np.abs(z) < height * 0.75) & (faces != 2) & (faces < 4)
        color = mix(rgb(cover), rgb("e6c877"), (faces == 2) & (np.abs(np.abs(x) - 0.1) < 0.012))
        title = (faces == 5) & (np.abs(y) < 0.035) & (np.abs(x) < 0.13)
        return mix(mix(color, rgb("f0dfae"), title), pages, paper)

    return texture


def ribs(count: int, dark: str, light: str) -> Texture:
    """A cactus: vertical ribs with pale dots along their ridges."""

    def texture(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
        x, y, z = points
        turn = np.arctan2(y, x) * count
        color = mix(rgb(dark), rgb(light), 0.5 + 0.5 * np.cos(turn))
        return mix(color, rgb("f1ecc6"), (np.cos(turn) > 0.8) & (np.cos(z * 110) > 0.5))

    return texture


def slats(width: float) -> Texture:
    """A crate of boards of `width` metres with dark gaps and a frame of 5 cm."""

    def texture(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
        x, y, z = points
        along = np.where(faces < 2, y, x)
        height = np.where(faces < 4, z, y)
        color = wood(along + np.floor(height / width) * 2, height, rgb("a9743f"), rgb("dcae6e"))
        gap = np.abs(height / width - np.round(height / width)) * width < 0.012
        return mix(color, rgb("3a2515"), gap)

    return texture


def knitted(code: str, light: str) -> Texture:
    """A pouf: braids that run from pole to pole."""

    def texture(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
        x, y, z = points
        turn = np.arctan2(y, x) * 9
        braid = np.sin(turn + 1.2 * np.sin(z * 36)) * 0.5 + 0.5
        return mix(rgb(code), rgb(light), smooth(0.2, 0.9, braid))

    return texture


def checks(first: str, second: str, side: float) -> Texture:
    """A three-dimensional chess board of cubes of `side` metres."""

    def texture(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
        cells = np.floor(points * 0.999 / side + 0.5).sum(axis=0).astype(np.int64)
        return mix(rgb(first), rgb(second), cells % 2 == 0)

    return texture
