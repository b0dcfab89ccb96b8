"""A textured ball, photographed: a scene whose surface is known exactly."""

import dataclasses

import numpy as np
from PIL import Image

from splat_cli.scene.images.image_set import ImageSet
from tests.views import ring_of_views
from tests.wide_picture import SIZE as WIDE
from tests.wide_picture import wide_picture

SIZE, RADIUS = (160, 120), 1.0


def views_of_ball(num_views=24, scale=1.0):
    """Views on an arc of 120 degrees, 3 radii from the centre."""
    views = ring_of_views(3 * num_views, radius=3.0 * scale)[:num_views]
    return [
        dataclasses.replace(view, width=SIZE[0], height=SIZE[1], fx=160.0, fy=162.0, cx=82.0, cy=58.0) for view in views
    ]


def photograph(view, scale=1.0, texture=1.0):
    """uint8 [H, W, 3]: a ball with a pattern that changes in every direction, on grey."""
    hit, is_ball = _surface(view, view.center / scale)
    return colors_at(hit, np.where(is_ball, texture, 0))


def _surface(view, center):
    """Points on the ball that the pixels of a camera at `center` show [H, W, 3], and whether they show it [H, W]."""
    column, row = np.meshgrid(np.arange(view.width) + 0.5, np.arange(view.height) + 0.5)
    rays = np.stack([(column - view.cx) / view.fx, (row - view.cy) / view.fy, np.ones_like(row)], axis=-1)
    rays = rays @ view.w2c[:3, :3] / np.linalg.norm(rays, axis=-1, keepdims=True)
    along = -(rays @ center)
    inside = along**2 - center @ center + RADIUS**2
    return center + (along - np.sqrt(np.maximum(inside, 0)))[..., None] * rays, inside > 0


def photographs_all_around(num):
    """`num` pictures of SIZE from a circle around a ball with detail at all scales, in which COLMAP finds features."""
    width, height = WIDE
    texture = np.asarray(wide_picture(1200, 400))
    for view in ring_of_views(num, width, height):
        camera = dataclasses.replace(view, fx=330.0, fy=330.0, cx=width / 2, cy=height / 2)
        hit, is_ball = _surface(camera, camera.center)
        east = np.arctan2(hit[..., 2], hit[..., 0]) / (2 * np.pi) % 1
        north = np.arccos(np.clip(hit[..., 1], -1, 1)) / np.pi
        picture = texture[(399 * north).astype(int), (1199 * east).astype(int)]
        yield Image.fromarray(np.where(is_ball[..., None], picture, np.uint8(128)))


def colors_at(points, texture=1.0):
    """uint8 [..., 3]: the ball's pattern at points [..., 3] on it, in units of its radius."""
    x, y, z = 9 * np.moveaxis(points, -1, 0)
    pattern = np.sin(x + 2 * np.sin(2 * y)) + np.sin(1.7 * y + np.sin(2.3 * z + x)) + np.sin(2.1 * z - 0.8 * x)
    red = 128 + texture * 40 * pattern
    return np.stack([red, np.full_like(red, 90), 255 - red], axis=-1).astype(np.uint8)


def photographs_of_ball(views, masks=None, **look):
    return ImageSet(views, [photograph(view, **look) for view in views], masks or [None] * len(views), [])
