"""Options that edit splats before they are exported: the fields of `Edits`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from splat_cli.cli.param_types import FiniteRange, Numbers, WholeRange

if TYPE_CHECKING:
    from splat_cli.gaussians.editing.edits import Edits

_LENGTH = FiniteRange(0, min_open=True)

_OPTIONS = (
    click.option(
        "--crop", metavar="X,Y,Z,...|none",
        help="Keep splats inside a sphere x,y,z,radius or a box x0,y0,z0,x1,y1,z1.  [default: as trained with --crop]",
    ),
    click.option("--min-opacity", type=FiniteRange(0, 1), metavar="X", help="Remove splats with a lower opacity."),
    click.option(
        "--min-size", type=_LENGTH, metavar="LENGTH",
        help="Remove splats whose longest axis is shorter, in world units.",
    ),
    click.option(
        "--max-size", type=_LENGTH, metavar="LENGTH",
        help="Remove splats whose longest axis is longer, in world units.",
    ),
    click.option(
        "--max-isolation", type=_LENGTH, metavar="TIMES",
        help="Remove splats farther from their neighbours than this multiple of their size.",
    ),
    click.option(
        "--min-contribution", type=_LENGTH, metavar="PIXELS",
        help="Remove splats that contribute less to a training view, as a mean over the views, in pixels.",
    ),
    click.option(
        "--max-splats", type=WholeRange(1), metavar="N",
        help="Maximum number of splats: keeps those that contribute most to the training views; of files, the largest.",
    ),
    click.option("--scale", type=FiniteRange(1e-6, 1e6), metavar="X", help="Scale everything by this factor."),
    click.option("--rotate", type=Numbers("X,Y,Z"), help="Rotate about x, then y, then z, in degrees."),
    click.option(
        "--translate", type=Numbers("X,Y,Z"), help="Translate by this, in world units, after scaling and rotation."
    ),
    click.option(
        "--sh-degree", type=WholeRange(0, 3), metavar="N",
        help="Keep spherical harmonics up to this degree.  [default: all]",
    ),
    click.option(
        "--morton", is_flag=True,
        help="Sort the splats along a Morton curve, so that neighbours in the file are close in space.",
    ),
)  # fmt: skip


def edit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with the options added, whose values are arguments of `edits_of`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def edits_of(crop: str | None, **values: Any) -> Edits:
    """The edits that the options describe. UsageError if `crop` is invalid."""
    from splat_cli.gaussians.editing.edits import Edits
    from splat_cli.scene.crop import parse_crop

    return Edits(crop=parse_crop(crop) if crop and crop != "none" else None, **values)
