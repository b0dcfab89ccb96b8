"""Textures of the objects in the room. Points are metres from an object's centre, in its own axes."""

import numpy as np

from splat_cli.sample.patterns import mix, noise, palette, rgb, smooth, wood
from splat_cli.sample.shapes import Texture


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
