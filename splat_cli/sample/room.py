"""The sample room: its objects, its lamps, and a walk around its table. Metres, z up, the floor at 0."""

import numpy as np

from splat_cli.sample.photographs import look_at
from splat_cli.sample.shapes import Box, Cylinder, Room, Shape, Sphere
from splat_cli.sample.surfaces import (
    HALF,
    WINDOW,
    WINDOW_HEIGHT,
    bands,
    book,
    checks,
    knitted,
    plain,
    ribs,
    room_albedo,
    sectors,
    slats,
    timber,
)

TABLE = 0.62
"""Height of the table's top."""


def make_room() -> list[Shape]:
    """All shapes; the first is the room itself."""
    walls = Room((0, 0, HALF[2]), HALF, room_albedo, texels=64)
    return [walls, *_table(), *_on_the_table(), *_on_the_floor()]


def _table() -> list[Shape]:
    walnut = timber("5a3620", "8f5c36")
    return [
        Cylinder((0, 0, TABLE - 0.03), (0.82, 0.82, 0.03), walnut, mirror=0.045, texels=48),
        Cylinder((0, 0, 0.3), (0.09, 0.09, 0.29), walnut),
        Cylinder((0, 0, 0.025), (0.38, 0.38, 0.025), walnut),
    ]


def _on_the_table() -> list[Shape]:
    glaze = bands(("f2ede0", "2b5f8f", "f2ede0", "f2ede0", "3f7fb0"), 0.055, wave=0.012, waves=8)
    return [
        Sphere((-0.32, 0.24, TABLE + 0.19), (0.19, 0.19, 0.19), plain("c8332b"), mirror=0.05),
        Sphere((0.36, 0.3, TABLE + 0.22), (0.17, 0.17, 0.22), glaze, mirror=0.04),
        Cylinder((0.36, 0.3, TABLE + 0.45), (0.07, 0.07, 0.06), plain("2b5f8f"), mirror=0.04),
        Box((0.1, -0.36, TABLE + 0.035), (0.26, 0.18, 0.035), book("2f6f73", 0.035), turn=12),
        Box((0.1, -0.36, TABLE + 0.1), (0.23, 0.16, 0.03), book("c7862f", 0.03), turn=-9),
        Box((0.09, -0.36, TABLE + 0.155), (0.2, 0.145, 0.025), book("93394a", 0.025), turn=27),
        Sphere((0.1, -0.36, TABLE + 0.29), (0.11, 0.11, 0.11), plain("a8803a"), mirror=0.4, tint=(1, 0.82, 0.5)),
        Cylinder((-0.42, -0.26, TABLE + 0.09), (0.12, 0.12, 0.09), bands(("b9603c", "b9603c", "e5c9a0"), 0.04)),
        Sphere((-0.42, -0.26, TABLE + 0.33), (0.13, 0.13, 0.2), ribs(9, "2f5e35", "6fa552")),
        Sphere((-0.42, -0.26, TABLE + 0.545), (0.045, 0.045, 0.035), plain("e86a92")),
        Sphere((0.02, 0.02, TABLE + 0.08), (0.08, 0.08, 0.08), plain("9bbf3b", 0.12, 40), mirror=0.03),
    ]


def _on_the_floor() -> list[Shape]:
    ball = sectors(("d9402f", "f4efe2", "f0b232", "f4efe2", "2a7fa8", "f4efe2"), "f4efe2", 0.285)
    return [
        Sphere((1.35, 0.85, 0.3), (0.3, 0.3, 0.3), ball, mirror=0.03),
        Box((-1.25, 1.2, 0.28), (0.36, 0.28, 0.28), slats(0.14), turn=25),
        Box((-1.2, 1.22, 0.66), (0.11, 0.11, 0.11), checks("d9a441", "2d6069", 0.11), turn=55),
        Sphere((-1.25, -1.15, 0.24), (0.46, 0.46, 0.25), knitted("7d4f6d", "d3a6b8")),
        Box((1.1, -1.3, 0.16), (0.16, 0.16, 0.16), checks("d9694a", "f3ead9", 0.16), turn=15),
        Box((1.5, -1.05, 0.12), (0.12, 0.12, 0.12), checks("3f8a87", "f0d9a0", 0.12), turn=-30),
        Cylinder((1.15, -1.3, 0.44), (0.1, 0.1, 0.12), bands(("e9c46a", "264653", "e76f51"), 0.06), turn=15),
    ]


def lamps() -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Area lights, each as (points [3, n], normal [3, 1], radiance times area of one point [3, 1])."""
    steps = (np.arange(4, dtype=np.float32) + 0.5) / 4
    u, v = (grid.ravel() for grid in np.meshgrid(steps, steps))
    pane = np.stack(
        [np.full_like(u, 0.02 - HALF[0]), (2 * u - 1) * WINDOW[0], (2 * v - 1) * WINDOW[1] + HALF[2] + WINDOW_HEIGHT]
    )
    radius, angle = 0.6 * np.sqrt(u), 2 * np.pi * (v + u / 4)
    disc = np.stack([radius * np.cos(angle), radius * np.sin(angle), np.full_like(u, 2 * HALF[2] - 0.02)])
    day = np.array([[1.0], [0.96], [0.88]], np.float32) * 5.5 * (4 * WINDOW[0] * WINDOW[1]) / 16
    warm = np.array([[1.0], [0.74], [0.44]], np.float32) * 9 * (np.pi * 0.6**2) / 16
    return [
        (pane, np.array([[1], [0], [0]], np.float32), day),
        (disc, np.array([[0], [0], [-1]], np.float32), warm),
    ]


def camera_poses(num_views: int, rng: np.random.Generator, level: bool = False) -> np.ndarray:
    """World-to-camera matrices, float64 [num_views, 4, 4]; the world's z points up, metres.

    level: the cameras' axes are horizontal.
    """
    turn = 2 * np.pi * (np.arange(num_views) + rng.uniform(-0.2, 0.2, num_views)) / num_views
    radius = 2.3 + 0.16 * np.sin(3 * turn + 1) + rng.normal(0, 0.03, num_views)
    height = 1.45 + 0.22 * np.sin(2 * turn) + rng.normal(0, 0.04, num_views)
    centers = np.stack([radius * np.cos(turn), radius * np.sin(turn), height], axis=1)
    targets = np.array([0, 0, 0.72]) + rng.normal(0, 0.06, (num_views, 3))
    if level:
        targets[:, 2] = height
    rolls = np.radians(2.5) * np.sin(5 * turn) + rng.normal(0, np.radians(1), num_views)
    return np.stack([look_at(*view) for view in zip(centers, targets, rolls, strict=True)])
