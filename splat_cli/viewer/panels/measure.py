"""Distances between picked points, and the scale of the scene from a known one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from viser import ViserServer

_COLOR = (255, 220, 60)
_HIDDEN = 0.5
"""Opacity of the splats in front of a picked point, including its own."""
_SIGMAS = 3.0
_FAINTEST = 1 / 255
_HINT = "Click on two points of the scene."


def surface_point(
    centers: np.ndarray, covariances: np.ndarray, opacities: np.ndarray, origin: np.ndarray, direction: np.ndarray
) -> np.ndarray | None:
    """Point [3] at which a ray has lost half of its light; None if it does not.

    Each splat counts where it is densest along the ray. centers: [N, 3], covariances: [N, 3, 3], opacities: [N, 1];
    direction: [3], of length 1.
    """
    offsets = centers - origin
    along = offsets @ direction
    sizes = np.trace(covariances, axis1=1, axis2=2)  # at least the variance along the longest axis
    near = (along > 0) & ((offsets**2).sum(axis=1) - along**2 < _SIGMAS**2 * sizes)
    offsets, sizes = offsets[near].astype(np.float64), sizes[near]
    flat = 1e-6 * np.maximum(sizes, 1e-12)[:, None, None] * np.eye(3)  # makes flat splats invertible
    inverses = np.linalg.inv(covariances[near] + flat)
    across = inverses @ direction
    depths = (across * offsets).sum(axis=1) / (across @ direction)
    apart = depths[:, None] * direction - offsets
    squares = np.einsum("ni,nij,nj->n", apart, inverses, apart)
    alphas = opacities[near, 0] * np.exp(-0.5 * squares)
    depths, alphas = depths[alphas > _FAINTEST], alphas[alphas > _FAINTEST]
    order = np.argsort(depths)
    hidden = np.flatnonzero(np.cumprod(1 - alphas[order]) <= 1 - _HIDDEN)
    return origin + depths[order[hidden[0]]] * direction if len(hidden) else None


class Measure:
    """Panel folder: two clicks measure a distance. A length in metres sets the scale for further distances.

    pick: point [3] that a ray (origin, direction) meets, or None. size: radius of the marks, world units. on_switch:
    called with whether clicks pick points.
    """

    def __init__(
        self,
        server: ViserServer,
        pick: Callable[[np.ndarray, np.ndarray], np.ndarray | None],
        size: float,
        on_switch: Callable[[bool], None] = lambda picking: None,
    ) -> None:
        self._server, self._pick, self._size, self._on_switch = server, pick, size, on_switch
        self.points: list[np.ndarray] = []
        self._marks: list[Any] = []
        self._metres_per_unit: float | None = None
        with server.gui.add_folder("Measure", expand_by_default=False):
            self._on = server.gui.add_checkbox("Pick points", False, hint=_HINT)
            self._status = server.gui.add_markdown("")
            self._length = server.gui.add_number(
                "Length, m", 0.0, min=0.0, step=0.001, hint="Real distance of the two points: sets the scale"
            )
            self._option: Any = server.gui.add_text("Option", "", disabled=True, visible=False, hint="For splat export")
        self._on.on_update(lambda _: self._toggle())
        self._length.on_update(lambda _: self._set_scale())

    def _toggle(self) -> None:
        self._server.scene.remove_click_callback(self._clicked)
        if self._on.value:
            self._server.scene.on_click()(self._clicked)
        else:
            self.points = []
        self._on_switch(self._on.value)
        self._draw()

    def _clicked(self, event: Any) -> None:
        direction = np.array(event.ray_direction, np.float64)
        point = self._pick(np.array(event.ray_origin, np.float64), direction / np.linalg.norm(direction))
        if point is not None:
            self.points = [*self.points, point] if len(self.points) < 2 else [point]
            self._draw()
            if self._metres_per_unit is None:
                self._set_scale()  # the length may have been given first

    @property
    def distance(self) -> float:
        """Distance of the two points, world units; 0 for fewer points."""
        return float(np.linalg.norm(self.points[1] - self.points[0])) if len(self.points) == 2 else 0.0

    def _set_scale(self) -> None:
        if self._length.value > 0 and self.distance > 0:
            self._metres_per_unit = self._length.value / self.distance
            a, b = (",".join(f"{number:.9g}" for number in point) for point in self.points)
            self._option.value = f"--scale-by {a} {b} {self._length.value:g}m"
            self._option.visible = True
            self._draw()

    def _text(self) -> str:
        if len(self.points) < 2:
            return _HINT if self._on.value else ""
        units = f"{self.distance:.4g} units"
        return units if self._metres_per_unit is None else f"{self.distance * self._metres_per_unit:.4g} m ({units})"

    def _draw(self) -> None:
        for mark in self._marks:
            mark.remove()
        scene, text = self._server.scene, self._text()
        self._marks = [
            scene.add_icosphere(f"/measure/{number}", self._size, _COLOR, position=point)
            for number, point in enumerate(self.points)
        ]
        if len(self.points) == 2:
            ends = np.array(self.points, np.float32)
            line = scene.add_line_segments("/measure/line", ends[None], _COLOR, thickness=2, thickness_units="screen")
            self._marks += [line, scene.add_label("/measure/label", text, position=ends.mean(axis=0))]
        self._status.content = text
