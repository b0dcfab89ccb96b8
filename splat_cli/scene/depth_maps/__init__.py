"""Depth maps of photographs: files, alignment with views, units."""

from splat_cli.scene.depth_maps.depth_map import DepthMap, DepthMaps
from splat_cli.scene.depth_maps.load import load_depth_maps

__all__ = ["DepthMap", "DepthMaps", "load_depth_maps"]
