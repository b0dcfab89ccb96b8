"""Captures for camera paths: cameras around a point, on an arc, along a corridor."""

import dataclasses

import numpy as np

from splat_cli.scene.trajectories.focus import look_at
from tests.views import ring_of_views

FOCUS, UP = np.array([1.0, -2.0, 0.5]), np.array([0.0, -0.6, 0.8])


def cameras(count=30, seed=0):
    """Cameras all around FOCUS, 2 to 3 units away, that look nearly at it and are upright with respect to UP."""
    rng = np.random.default_rng(seed)
    template = ring_of_views(1)[0]
    east = np.array([1.0, 0, 0])
    views = []
    for angle in rng.uniform(0, 2 * np.pi, count):
        around = np.cos(angle) * east + np.sin(angle) * np.cross(UP, east)
        position = FOCUS + rng.uniform(2, 3) * around + 0.7 * UP
        views.append(dataclasses.replace(template, w2c=look_at(position, FOCUS + rng.normal(0, 0.02, 3), UP)))
    return views


def axes_meet(view, point):
    """Whether the view looks at the point."""
    ahead = view.w2c[:3, :3] @ (point - view.center)
    return np.linalg.norm(ahead[:2]) < 1e-9 * ahead[2]


def moved(view, by):
    return dataclasses.replace(view, w2c=view.w2c @ np.block([[np.eye(3), -np.array(by)[:, None]], [0, 0, 0, 1]]))


def rolled(view, angle):
    roll = np.eye(4)
    roll[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return dataclasses.replace(view, w2c=roll @ view.w2c)


def on_an_arc(degrees, count=30, height=0.7, radius=2.5):
    """Cameras on an arc about FOCUS that look at it, upright."""
    template, views = ring_of_views(1)[0], []
    for angle in np.radians(np.linspace(-degrees / 2, degrees / 2, count)):
        around = np.cos(angle) * np.array([1.0, 0, 0]) + np.sin(angle) * np.cross(UP, [1.0, 0, 0])
        position = FOCUS + radius * around + height * UP
        views.append(dataclasses.replace(template, w2c=look_at(position, FOCUS, UP)))
    return views


def angles_of(frames):
    """Degrees about the vertical through FOCUS."""
    offsets = np.array([frame.center for frame in frames]) - FOCUS
    return np.degrees(np.arctan2(offsets @ np.cross(UP, [1.0, 0, 0]), offsets[:, 0]))


def is_level(frame):
    return abs(frame.w2c[0, :3] @ UP) < 0.003 and frame.w2c[1, :3] @ UP < 0


def walk(count=60):
    """Slightly shaky cameras along a corridor with a bend, looking ahead."""
    rng = np.random.default_rng(2)
    east, north = np.array([1.0, 0, 0]), np.cross(UP, [1.0, 0, 0])
    views = []
    for i in range(count):
        turn = np.pi / 2 * np.clip((i - 20) / 20, 0, 1)
        place = min(i, 30) * 0.3 * east + max(i - 30, 0) * 0.3 * north
        ahead = np.cos(turn) * east + np.sin(turn) * north + rng.normal(0, 0.05, 3)
        views.append(dataclasses.replace(ring_of_views(1)[0], w2c=look_at(place, place + ahead, UP)))
    return views
