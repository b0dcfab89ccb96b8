"""Losses on depth, from sparse points, depth maps, and the free space in front of points."""
