"""Comments of PLY files about their splats: antialiasing and origin."""

import math
from collections.abc import Iterable
from pathlib import Path

from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.io.ply_header import header_comments

_ANTIALIASED = "antialiased:"
_ANTIALIASED_SPLATS = f"{_ANTIALIASED} seen by a pixel of variance 0.1, which keeps what a splat covers (Mip-Splatting)"
"""Comment of antialiased splats; only the prefix is parsed."""
_RENDER_MODE = "SplatRenderMode: mip"
"""Comment of antialiased splats by Brush, which PlayCanvas's splat-transform reads and writes, too."""
_ORIGIN = "subtracted_origin:"
"""Prefix of the comment with the origin x y z."""


def splat_comments(splats: SplatArrays) -> list[str]:
    """Comments of an element that mark antialiased splats, and state their origin unless it is zero."""
    comments = []
    if splats.antialiased:
        comments += [_RENDER_MODE, _ANTIALIASED_SPLATS]
    if any(splats.origin):
        comments.append(" ".join([_ORIGIN, *map(repr, map(float, splats.origin))]))
    return comments


def is_antialiased(comments: Iterable[str]) -> bool:
    """Whether comments say that splats are antialiased, in the form of this program, Brush or Postshot; the last one
    counts.
    """
    found = False
    for comment in comments:
        name, _, value = comment.strip().partition(" ")
        match name.lower():
            case "antialiased:":
                found = True
            case "splatrendermode:":  # of Brush and splat-transform: default, mip or 2dgs
                found = value.strip().lower() == "mip"
            case "antialiased":  # of Postshot: 0 or 1
                found = value.strip() == "1"
    return found


def stated_origin(comments: Iterable[str]) -> tuple[float, float, float]:
    """The origin that comments state (`SplatArrays.origin`), zeros if they state none, or an invalid one."""
    for comment in comments:
        if comment.startswith(_ORIGIN):
            try:
                x, y, z = map(float, comment[len(_ORIGIN) :].split())
            except ValueError:
                continue
            if all(map(math.isfinite, (x, y, z))):
                return x, y, z
    return 0.0, 0.0, 0.0


def origin_of_file(path: Path) -> tuple[float, float, float]:
    """The origin that the header of a PLY of splats states, zeros for other files."""
    return stated_origin(header_comments(path))
