"""Depth maps of views, with the messages of loading."""

from types import SimpleNamespace

import numpy as np

from splat_cli.scene.depth_maps import load_depth_maps

CONFIG = SimpleNamespace(depth_maps="auto", depth_unit=0.001)
NO_POINTS = np.zeros((0, 3), np.float32)


def loaded(views, points=NO_POINTS, max_bytes=1 << 30, **config):
    """Depth maps, messages and warnings."""
    said, warned = [], []
    config = SimpleNamespace(**{**vars(CONFIG), **config})
    return load_depth_maps(views, points, config, max_bytes, said.append, warned.append), said, warned


def inverse(depth_map):
    """1/z, NaN without a depth."""
    values = depth_map.values.astype(float)
    return np.where(values > 0, depth_map.scale * values, np.nan)
