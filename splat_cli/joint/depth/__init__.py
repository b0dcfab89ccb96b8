"""Losses on depth: of sparse points, of depth maps, of free space before points."""
