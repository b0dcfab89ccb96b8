"""Colours of surfaces: patterns, textures of objects, and the floor, walls and ceiling of the room.

Points are metres from the centre of an object (or the room), in its own axes. Arrays are float32; colours are linear
RGB [3, n].
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


HALF = (3.1, 3.1, 1.35)
"""Half the room's width, depth and height."""

SPINES = palette("b5483a", "d99a3d", "3f7a78", "e8dcc0", "2f4858", "8c5a7a", "6d8b4e", "c9714b")
WINDOW = (0.95, 0.75)
"""Half width and half height of the window in the wall at -x, centred on it."""
WINDOW_HEIGHT = 0.25


def room_albedo(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Albedo of the inside of the room's box; faces as in Box."""
    colors = np.empty_like(points)
    painters = (_window_wall, _picture_wall, _shelf_wall, _pattern_wall, _floor, _ceiling)
    for face, painter in enumerate(painters):
        index = np.flatnonzero(faces == face)
        if index.size:
            axis = face // 2
            across, height = (points[1 - axis], points[2]) if axis < 2 else (points[0], points[1])
            colors[:, index] = painter(across.take(index), height.take(index))
    return colors


def _from_line(x: np.ndarray, period: float) -> np.ndarray:
    """Distance of x from the nearest multiple of the period."""
    return np.abs(x / period - np.round(x / period)) * period


def _floor(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    row = np.floor(y / 0.2)
    along = x + 1.7 * cell_random(row, row)
    tone = 0.75 + 0.4 * cell_random(np.floor(along / 1.3), row)
    planks = wood(along + 3 * row, y, rgb("8a5a34"), rgb("c08a54")) * tone
    seam = np.minimum(_from_line(y, 0.2), _from_line(along, 1.3))
    planks = mix(planks, planks * 0.35, 1 - smooth(0.004, 0.014, seam))
    radius = np.hypot(x, y)
    return mix(_rug(x, y, radius), planks, radius > 1.75)


def _rug(x: np.ndarray, y: np.ndarray, radius: np.ndarray) -> np.ndarray:
    rings = palette("e9d8b8", "a63f32", "e9d8b8", "2d6069", "d9a441", "2d6069", "a63f32", "efe3ca")
    ring = np.clip(radius / 1.75 * 8, 0, 7).astype(np.int64)
    base = rings[:, ring]
    petals = np.cos(np.arctan2(y, x) * (4 + 4 * ring)) * np.cos((radius / 1.75 * 8 - ring - 0.5) * np.pi)
    accents = palette("a63f32", "e9d8b8", "2d6069", "e9d8b8", "a63f32", "e9d8b8", "d9a441", "a63f32")
    pattern = mix(base, accents[:, ring], petals > 0.55)
    return pattern * (0.86 + 0.28 * noise(x * 22, y * 22))


def _skirting(color: np.ndarray, height: np.ndarray) -> np.ndarray:
    """A white board along the foot of a wall, a darker line on it."""
    above = height + HALF[2]
    board = mix(rgb("efe6d6"), rgb("a89878"), np.abs(above - 0.13) < 0.012)
    return mix(board, color, above > 0.15)


def _picture_wall(y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Terracotta plaster with three framed pictures."""
    color = rgb("c9785a") * (0.88 + 0.24 * noise(y * 2.5, z * 2.5)) * (0.95 + 0.1 * noise(y * 14, z * 14))
    for middle, half, painting in ((-1.9, 0.55, _hills), (0.0, 0.75, _circles), (1.9, 0.55, _blocks)):
        u, v = (y - middle) / half, (z + 0.15) / 0.6
        edge = np.maximum(np.abs(u) * half - half, np.abs(v) * 0.6 - 0.6)
        framed = mix(painting(u, v), rgb("f3ead9"), edge > -0.13)
        framed = mix(framed, rgb("4a2f20"), edge > -0.06)
        color = mix(framed, color, edge > 0)
    return _skirting(color, z)


def _hills(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    color = mix(rgb("f2c879"), rgb("7fb0b8"), smooth(-0.2, 0.8, v))
    color = mix(color, rgb("e0583a"), np.hypot(u - 0.25, (v - 0.35) * 1.1) < 0.2)
    for level, code in ((0.12, "7c8f6a"), (-0.15, "4f7358"), (-0.42, "2e4d45")):
        color = mix(color, rgb(code), v < level + 0.12 * np.sin(u * 4 + level * 20))
    return color


def _circles(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    color = rgb("f0e2c4") * np.ones_like(u)
    spots = ((-0.4, 0.1, 0.42, "264653"), (0.2, -0.15, 0.36, "e76f51"), (0.45, 0.35, 0.22, "e9c46a"),
             (-0.1, 0.35, 0.18, "2a9d8f"), (-0.45, -0.4, 0.16, "e9c46a"))  # fmt: skip
    for x, y, radius, code in spots:
        color = mix(color, rgb(code), np.hypot((u - x) * 1.25, v - y) < radius)
    return mix(color, rgb("264653"), np.abs(v + 0.62 + 0.05 * np.sin(u * 9)) < 0.025)


def _blocks(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    column, row = np.floor(u * 2.5), np.floor(v * 3)
    pick = (cell_random(column, row + 40) * SPINES.shape[1]).astype(np.int64)
    return SPINES[:, pick]


def _shelf_wall(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Bookshelves from side to side."""
    shelf = (z + HALF[2] - 0.15) / 0.5
    row, up = np.floor(shelf), (shelf - np.floor(shelf)) * 0.5
    width = 0.105
    column = np.floor(x / width)
    book = cell_random(column + 17 * row, row)
    pick = (cell_random(column, row + 9) * SPINES.shape[1]).astype(np.int64)
    spine = SPINES[:, pick] * (0.75 + 0.25 * np.sin((x / width - column) * np.pi))
    spine = mix(spine, rgb("ead9a8"), (np.abs(up - 0.1) < 0.016) & (book > 0.45))
    spine = mix(spine, spine * 0.5, (np.abs(up - 0.24) < 0.035) & (book < 0.45))
    color = mix(spine, rgb("35231a"), up > 0.3 + 0.12 * book)
    timber = wood(x, z, rgb("6e4527"), rgb("8f5f38"))
    upright = _from_line(x, 1.24) < 0.03
    return _skirting(mix(color, timber, (up > 0.45) | upright), z)


def _pattern_wall(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Teal wallpaper of scales with small flowers above a wooden panel."""
    row = np.floor(z / 0.27)
    u = x / 0.54 + 0.5 * (row % 2)
    du, dv = (u - np.floor(u) - 0.5) * 0.54, z - (row + 0.1) * 0.27
    distance = np.hypot(du, dv)
    paper = mix(rgb("2f6f73"), rgb("3f8a87"), noise(x * 3, z * 3))
    paper = mix(paper, rgb("8fc1a9"), np.abs(distance - 0.215) < 0.022)
    petals = 0.068 + 0.026 * np.cos(5 * np.arctan2(dv, du))
    paper = mix(paper, rgb("f0d9a0"), distance < petals)
    paper = mix(paper, rgb("d9694a"), distance < 0.033)
    panel = wood(z, x, rgb("7a4f2e"), rgb("a3703f"))
    groove = _from_line(x, 0.31) < 0.012
    panel = mix(panel, panel * 0.4, groove | (z > -0.62))
    return _skirting(mix(panel, paper, z > -0.58), z)


def _window_wall(y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Cream plaster with faint stripes, a white window frame and curtains."""
    stripe = np.sin(y * np.pi / 0.155) > 0.2
    color = mix(rgb("e6cf9f"), rgb("d8b878"), stripe) * (0.92 + 0.16 * noise(y * 4, z * 4))
    fold = 0.72 + 0.28 * np.sin(y * 42 + 1.5 * np.sin(z * 3))
    curtain = mix(rgb("b4523f"), rgb("e2a45f"), np.abs(z / 0.3 - np.round(z / 0.3)) < 0.12) * fold
    is_curtain = (np.abs(np.abs(y) - 1.35) < 0.33) & (z > -1.05)
    frame = np.maximum(np.abs(y) - WINDOW[0], np.abs(z - WINDOW_HEIGHT) - WINDOW[1])
    color = mix(color, rgb("f4efe4"), frame < 0.09)
    return _skirting(mix(color, curtain, is_curtain), z)


def _ceiling(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    beam = _from_line(x, 1.24) < 0.1
    return mix(rgb("f3ead8") * (0.95 + 0.1 * noise(x * 3, y * 3)), wood(y, x, rgb("6e4527"), rgb("8f5f38")), beam)


def room_glow(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Emitted light, linear RGB [3, n]: the sky in the window's panes and the lamp on the ceiling."""
    glow = np.zeros_like(points)
    for face, emission in ((0, _window_glow), (5, _lamp_glow)):
        index = np.flatnonzero(faces == face)
        glow[:, index] = emission(*points.take(index, axis=1))
    return glow


def _window_glow(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    up = z - WINDOW_HEIGHT
    pane = (np.abs(np.abs(y) - WINDOW[0] / 2) < WINDOW[0] / 2 - 0.03) & (np.abs(np.abs(up) - WINDOW[1] / 2) < 0.345)
    sky = mix(rgb("fff0d0"), rgb("a8d4f0"), smooth(-0.5, 0.6, up)) * 1.6
    cloud = smooth(0.55, 0.8, noise(y * 2.2 + 5, up * 4 + 3))
    sky = mix(sky, rgb("ffffff") * 1.8, cloud * (up > -0.3))
    hedge = up < -0.32 + 0.12 * noise(y * 5, y)
    sky = mix(sky, rgb("6f9a52") * 0.9, hedge)
    return sky * pane


def _lamp_glow(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.float32(4) * rgb("ffe2b0") * (np.hypot(x, y) < 0.6)
