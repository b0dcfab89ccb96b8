"""A city of blocks in a grid of streets, its surfaces, and photographs by a drone. Metres, z up, the ground at 0."""

from collections.abc import Sequence

import numpy as np

from splat_cli.sample.photographs import look_at
from splat_cli.sample.shapes import EPSILON, Box, Cylinder, Room, Shape, Sphere, Texture, blocked, nearest
from splat_cli.sample.surfaces import cell_random, mix, noise, palette, plain, rgb, smooth

_PLASTER = palette("c9785a", "d9c39a", "a9b6b0", "e6dccb", "b5483a", "7f8f9f", "c7a15a", "8c6a5a")
_STOREY, _BAY = 1.5, 1.4
_LANE = 2.4
"""Half the width of the roadway; sidewalks on either side."""


def facade(number: int, height: float) -> Texture:
    """Storeys of windows on four sides, gravel on the roof. number: selects the colours; height: of the building."""
    wall = _PLASTER[:, number % _PLASTER.shape[1], None]
    trim = _PLASTER[:, (number // 8 + 3) % _PLASTER.shape[1], None]

    def texture(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
        x, y, z = points
        along, up = np.where(faces < 2, y, x), z + height / 2
        bay, storey = np.floor(along / _BAY), np.floor(up / _STOREY)
        u, v = along / _BAY - bay - 0.5, up / _STOREY - storey - 0.5
        color = wall * (0.85 + 0.3 * noise(along * 0.8 + number % 31, up * 0.8))
        color = mix(color, trim, np.abs(v) > 0.44)
        lit = cell_random(bay + number % 97, storey + faces)
        glass = mix(rgb("22303c"), rgb("dfe9f0"), lit) * np.ones_like(u)
        color = mix(color, glass, (np.abs(u) < 0.28) & (np.abs(v) < 0.3))
        gravel = rgb("a39c90") * (0.75 + 0.5 * noise(x * 1.3 + number % 17, y * 1.3))
        return mix(color, gravel, faces >= 4)

    return texture


def ground(x: np.ndarray, y: np.ndarray, pitch: float, street: float) -> np.ndarray:
    """A grid of streets `pitch` metres apart, the first along each axis at 0, with grass between them.

    street: width, with sidewalks.
    """
    from_x, from_y = _from_street(x, pitch), _from_street(y, pitch)
    across, along = np.minimum(from_x, from_y), np.where(from_x < from_y, y, x)
    grass = mix(rgb("57753f"), rgb("9aa35a"), noise(x * 0.6, y * 0.6)) * (0.8 + 0.4 * noise(x * 2.5, y * 2.5))
    paving = rgb("b9b2a5") * (0.8 + 0.3 * cell_random(np.floor(x / 0.8), np.floor(y / 0.8)))
    asphalt = rgb("5b5c60") * (0.85 + 0.3 * noise(x * 1.7, y * 1.7))
    asphalt = mix(asphalt, rgb("e8e4d8"), (across < 0.18) & (np.floor(along / 1.5) % 2 == 0))
    color = mix(asphalt, paving, across > _LANE)
    return mix(color, grass, across > street / 2)


def horizon(along: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Hills under a sky; up: metres above the ground."""
    hills = mix(rgb("5f7d54"), rgb("87986a"), noise(along * 0.08, up * 0.2))
    sky = mix(rgb("dfe9ee"), rgb("8fb8de"), smooth(0, 90, up))
    return mix(hills, sky, up > 5 + 5 * noise(along * 0.03, along * 0))


def _from_street(x: np.ndarray, pitch: float) -> np.ndarray:
    """Distance from the middle of the nearest street."""
    return np.abs(x - np.round(x / pitch) * pitch)


PITCH, STREET = 24.0, 7.0
"""Distance between the middles of neighbouring streets, and width of a street with its sidewalks."""
OUTSKIRTS, CEILING = 60.0, 120.0
"""Distance from the outermost streets to the painted horizon, and its height."""
PARKS = 0.15
"""Fraction of lots with trees instead of a building."""
ALTITUDE, PITCH_ANGLES = (20.0, 27.0), (40.0, 62.0)
"""Ranges of the drone's altitude and of its camera's angle below the horizon, degrees."""
_TOWARD_SUN = np.array([[0.45], [-0.35], [0.82]], np.float32)
SUN = _TOWARD_SUN / np.linalg.norm(_TOWARD_SUN)
LONGEST_SHADOW = 16.0
_HEADINGS = 4


class CityMap:
    """Shapes of a city of columns x rows blocks, centred on the origin. bounds: float64 [2, 3], around its blocks."""

    def __init__(self, columns: int, rows: int, rng: np.random.Generator) -> None:
        half = np.array([columns, rows]) * PITCH / 2
        self.bounds = np.array([[*-half, 0], [*half, LONGEST_SHADOW]])
        size = float(half[0] + OUTSKIRTS), float(half[1] + OUTSKIRTS), CEILING / 2
        self.shapes: list[Shape] = [Room((0, 0, CEILING / 2), size, _surroundings(-half))]
        for column in range(columns):
            for row in range(rows):
                middle = np.array([column + 0.5, row + 0.5]) * PITCH - half
                self.shapes += _block(middle, rng)
        self._centers = np.concatenate([shape.center for shape in self.shapes], axis=1)
        self._radii = np.array([shape.radius for shape in self.shapes])

    def camera_poses(self, num_views: int, rng: np.random.Generator) -> np.ndarray:
        """World-to-camera matrices of a drone over all blocks, float64 [num_views, 4, 4]; headings cycle through evenly
        spaced directions.

        Places are a Halton sequence (bases 2 and 3), which fills the city evenly for any number of views.
        """
        low, high = self.bounds[:, :2]
        poses = []
        for number in range(num_views):
            place = low + (high - low) * [_halton(number + 1, 2), _halton(number + 1, 3)]
            angle = 2 * np.pi * (number % _HEADINGS) / _HEADINGS + rng.normal(0, 0.25)
            down = np.radians(rng.uniform(*PITCH_ANGLES))
            forward = np.array([np.cos(angle) * np.cos(down), np.sin(angle) * np.cos(down), -np.sin(down)])
            altitude = rng.uniform(*ALTITUDE)
            center = np.array([*place, 0]) - forward * altitude / np.sin(down)  # looks at its place on the ground
            poses.append(look_at(center, center + forward))
        return np.stack(poses)

    def trace(self, origin: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Colours and points along rays: sunlight with shadows, light of the sky. See photographs.Trace."""
        shapes = self._near(origin, directions)
        distance, which = nearest(shapes, origin, directions)
        points = origin + distance * directions
        colors = np.zeros_like(points)
        for i, shape in enumerate(shapes):
            index = np.flatnonzero(which == i)
            if index.size:
                colors[:, index] = _lit(shapes, shape, points.take(index, axis=1))
        return colors, points

    def _near(self, origin: np.ndarray, directions: np.ndarray) -> list[Shape]:
        """The surroundings, and the shapes that rays from one point may meet directly or by their shadows."""
        axis = directions.mean(axis=1, keepdims=True)
        axis /= np.linalg.norm(axis)
        angle = np.arccos(np.clip((axis * directions).sum(axis=0).min(), -1, 1))
        offset = self._centers - origin
        distance = np.maximum(np.linalg.norm(offset, axis=0), 1e-6)
        reach = np.arcsin(np.clip((self._radii + LONGEST_SHADOW) / distance, 0, 1))
        seen = np.arccos(np.clip((axis * offset).sum(axis=0) / distance, -1, 1)) < angle + reach
        return [shape for i, shape in enumerate(self.shapes) if i == 0 or seen[i]]


def _lit(shapes: Sequence[Shape], shape: Shape, points: np.ndarray) -> np.ndarray:
    """Radiance [3, n] of points on one shape."""
    place = shape.local(points)
    normals = shape.normals(place)
    faces = shape.unwrap(place)[0]
    facing = np.maximum((normals * SUN).sum(axis=0), 0)
    toward = np.flatnonzero(facing > 0)
    start = points[:, toward] + 2 * EPSILON * normals[:, toward]
    sun = np.broadcast_to(SUN, start.shape)
    shadow = blocked(shapes, start, sun, np.full(toward.size, 2 * LONGEST_SHADOW, np.float32))
    facing[toward[shadow]] = 0
    sky = 0.3 + 0.2 * normals[2]
    light = 0.85 * rgb("fff1d6") * facing + rgb("c9dcf2") * sky
    painted = shape is shapes[0]
    return shape.albedo(place, faces) * np.where(painted & (faces != 4), 1, light).astype(np.float32)


def _block(middle: np.ndarray, rng: np.random.Generator) -> list[Shape]:
    """Four lots, each with a building or trees."""
    quarter = (PITCH - STREET) / 4
    shapes: list[Shape] = []
    for x in (-1, 1):
        for y in (-1, 1):
            lot = middle + quarter * np.array([x, y])
            shapes += _trees(lot, quarter, rng) if rng.random() < PARKS else _building(lot, quarter, rng)
    return shapes


def _building(lot: np.ndarray, quarter: float, rng: np.random.Generator) -> list[Shape]:
    """A box with a facade, and another one on its roof."""
    width, depth = quarter * rng.uniform(0.75, 0.95, 2)
    height = float(rng.choice([4.5, 6.0, 7.5, 9.0, 12.0]))
    x, y = (float(value) for value in lot)
    paint = facade(int(rng.integers(1 << 20)), height)
    top = (float(rng.uniform(0.2, 0.4) * width), float(rng.uniform(0.2, 0.4) * depth), float(rng.uniform(0.4, 1.0)))
    shift = rng.uniform(-0.4, 0.4, 2) * [width, depth]
    roof = plain(str(rng.choice(["8f8a80", "b0563f", "5d6f7a"])), 0.1, 1.0)
    return [
        Box((x, y, height / 2), (float(width), float(depth), height / 2), paint),
        Box((x + float(shift[0]), y + float(shift[1]), height + top[2]), top, roof),
    ]


def _trees(lot: np.ndarray, quarter: float, rng: np.random.Generator) -> list[Shape]:
    shapes: list[Shape] = []
    for _ in range(3):
        x, y = (float(value) for value in lot + rng.uniform(-0.75, 0.75, 2) * quarter)
        crown, trunk = float(rng.uniform(1.1, 1.7)), float(rng.uniform(1.2, 2.0))
        leaves = plain(str(rng.choice(["4f7a3a", "6f9440", "3c6a44"])), 0.35, 2.0)
        shapes += [
            Cylinder((x, y, trunk / 2), (0.2, 0.2, trunk / 2), plain("6b4a30")),
            Sphere((x, y, trunk + 0.8 * crown), (crown, crown, crown), leaves),
        ]
    return shapes


def _surroundings(corner: np.ndarray) -> Texture:
    """Albedo of the ground; colour of the horizon and the sky. corner: x and y of a crossing of streets."""

    def texture(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
        x, y, z = points
        on_ground = faces == 4
        colors = horizon(x + y, z + CEILING / 2)
        colors[:, on_ground] = ground(x[on_ground] - corner[0], y[on_ground] - corner[1], PITCH, STREET)
        return colors

    return texture


def _halton(number: int, base: int) -> float:
    """The number-th element, from 1, of the van der Corput sequence in a base."""
    value, fraction = 0.0, 1.0
    while number:
        fraction /= base
        number, digit = divmod(number, base)
        value += fraction * digit
    return value
