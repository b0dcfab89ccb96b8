"""Depth maps of photographs: files, alignment with views, units."""

from splat_cli.scene.depth_maps.load import DepthMap, DepthMaps, load_depth_maps

__all__ = ["DepthMap", "DepthMaps", "load_depth_maps"]
