"""Interface of models that give splats their colours in place of spherical harmonics."""

from __future__ import annotations

from typing import Protocol

from splat_cli.gaussians.splats import Splats
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import Projection


class Coloring(Protocol):
    """Colour model of visible splats that replaces their spherical harmonics, which then have degree 0."""

    def resize(self, capacity: int) -> None:
        """Allocate buffers for `capacity` splats."""

    def forward(self, splats: Splats, cameras: CameraTable, state: IterState, projection: Projection) -> None:
        """Overwrite projection.colors of the splats visible in the state's view."""

    def backward(self, splats: Splats, cameras: CameraTable, state: IterState, projection: Projection) -> None:
        """Backward pass from the gradients of colours in projection.d_splats to the model and the splats' colours."""
