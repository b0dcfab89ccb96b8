"""Surfaces of the city: facades, streets, horizon. Metres."""

import numpy as np

from splat_cli.sample.patterns import cell_random, mix, noise, palette, rgb, smooth
from splat_cli.sample.shapes import Texture

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
