"""Panels of the viewer's sidebar.

Cameras of the photographs (clickable pyramids), views that the user saves, comparison of a photograph with the render
from its camera, and distances between picked points.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from splat_cli.errors import SplatError
from splat_cli.eval.metrics import psnr
from splat_cli.scene.cameras_json import write_cameras
from splat_cli.scene.extent import scene_extent
from splat_cli.scene.trajectories.focus import focus_point
from splat_cli.scene.view import View
from splat_cli.viewer.html import pivot_share
from splat_cli.viewer.server import field_of_view, move_camera, pose_of, set_start, view_from

if TYPE_CHECKING:
    from viser import ClientHandle, ViserServer

THUMBNAIL = 128
"""Longer side of a thumbnail, approximately, in pixels."""
FRUSTUM = 0.04
"""Size of a pyramid, relative to the scene's extent."""
_CLEAR = 4
"""Pyramids within this distance of the selected camera, relative to their size, are hidden."""
CAMERA_COLOR = (255, 160, 40)


class Cameras:
    """Panel folder and pyramids of one or more `views`.

    on_visit: called with the index of the camera that a user selected, in a thread of the server.
    """

    def __init__(self, server: ViserServer, views: Sequence[View], on_visit: Callable[[int], None]) -> None:
        self._server, self._views, self._on_visit = server, list(views), on_visit
        self._focus, self._extent, self._pivot_share = focus_point(views), scene_extent(views), pivot_share(views)
        names = [f"{i}  {view.name}" for i, view in enumerate(views)]
        with server.gui.add_folder("Cameras"):
            self._shown = server.gui.add_checkbox("Show", True)
            self._size = server.gui.add_slider("Size", 0.2, 5.0, 0.1, 1.0)
            self._choice: Any = server.gui.add_dropdown("Go to", names, hint="Or click on a camera")
            step = server.gui.add_button_group("", ("Previous", "Next"))
        self._visited, self._hidden = 0, False
        self._frustums = [self._frustum(i) for i in range(len(names))]
        self._arrange()
        self._shown.on_update(lambda _: self._arrange())
        self._size.on_update(lambda _: self._arrange())
        self._choice.on_update(lambda event: self._go(event.client, names.index(self._choice.value)))
        step.on_click(lambda event: self._step(names, -1 if step.value == "Previous" else 1))

    def thumbnail_step(self, index: int) -> int:
        """Subsampling step of a photograph's thumbnail."""
        return max(1, max(self._views[index].width, self._views[index].height) // THUMBNAIL)

    def set_thumbnail(self, index: int, image: np.ndarray) -> None:
        """Show uint8 [H, W, 3] in the pyramid."""
        self._frustums[index].image = image

    def hide(self, hidden: bool) -> None:
        """Hide all pyramids, so that they take no clicks, or show them again as the panel says."""
        self._hidden = hidden
        self._arrange()

    def ahead(self, view: View) -> float:
        """Distance from a camera to the orbit centre in front of it, world units."""
        return self._pivot_share * max(float(view.w2c[2, :3] @ (self._focus - view.center)), 0.1 * self._extent)

    def _frustum(self, index: int) -> Any:
        view = self._views[index]
        position, rotation = pose_of(view)
        handle = self._server.scene.add_camera_frustum(
            f"/cameras/{index}",
            field_of_view(view),
            view.width / view.height,
            thickness=1.5,
            thickness_units="screen",
            color=CAMERA_COLOR,
            position=position,
            wxyz=rotation,
            cast_shadow=False,
            receive_shadow=False,
        )
        handle.on_click(lambda event: self._go(event.client, index))
        return handle

    def _arrange(self) -> None:
        size = FRUSTUM * self._extent * self._size.value
        here = self._views[self._visited].center
        with self._server.atomic():
            for view, frustum in zip(self._views, self._frustums, strict=True):
                is_away = np.linalg.norm(view.center - here) > _CLEAR * size
                frustum.visible = self._shown.value and is_away and not self._hidden
                frustum.scale = size

    def _step(self, names: list[str], by: int) -> None:
        self._choice.value = names[(names.index(self._choice.value) + by) % len(names)]

    def _go(self, client: ClientHandle | None, index: int) -> None:
        for one in [client] if client else self._server.get_clients().values():
            move_camera(one, self._views[index], self.ahead(self._views[index]))
        set_start(self._server, self._views[index], self.ahead(self._views[index]))
        self._visited = index
        self._arrange()
        self._on_visit(index)


_SAVED_COLOR = (90, 220, 120)


class SavedViews:
    """Panel folder: saves the current camera of a browser to `file`, or to FILE-2, ... if another viewer has that one.

    size: size of the pyramids of saved views, world units. file: None without saved views. origin: of the scene.
    """

    def __init__(self, server: ViserServer, file: Path, size: float, origin: Iterable[float] = ()) -> None:
        self.views: list[View] = []
        self.file: Path | None = None
        self._server, self._wanted, self._size, self._origin = server, file, size, tuple(origin)
        self._lock = threading.Lock()  # browsers call from several threads
        self._frustums: list[Any] = []
        with server.gui.add_folder("Saved views", expand_by_default=False):
            save = server.gui.add_button("Save this view")
            remove = server.gui.add_button("Remove the last")
            self._status = server.gui.add_markdown("None saved yet.")
        save.on_click(self._add)
        remove.on_click(self._remove)

    def _add(self, event: Any) -> None:
        with self._lock:
            self._append(event.client)
            self._save()

    def _append(self, client: Any) -> None:
        view = view_from(client.camera, f"view_{len(self.views):03d}")
        position, rotation = pose_of(view)
        self._frustums.append(
            self._server.scene.add_camera_frustum(
                f"/saved/{len(self.views)}",
                field_of_view(view),
                view.width / view.height,
                scale=self._size,
                thickness=1.5,
                thickness_units="screen",
                color=_SAVED_COLOR,
                position=position,
                wxyz=rotation,
            )
        )
        self.views.append(view)

    def _remove(self, event: Any) -> None:
        with self._lock:
            if self.views:
                self.views.pop()
                self._frustums.pop().remove()
                self._save()

    def _save(self) -> None:
        try:
            self.file = self.file or new_file(self._wanted)
            if self.views:
                write_cameras(self.file, self.views, self._origin)
            else:
                self.file.unlink(missing_ok=True)
                self.file = None
        except (SplatError, OSError) as error:
            self._status.content = f"Not saved: {error}"
            return
        self._status.content = f"{len(self.views)} in `{self.file}`" if self.views else "None saved yet."


def new_file(path: Path) -> Path:
    """Create `path`, empty; if it exists, with -2, -3, ... before its suffix. Raises OSError."""
    number, found = 1, path
    while True:
        try:
            found.touch(exist_ok=False)
            return found
        except FileExistsError:
            number += 1
            found = path.with_stem(f"{path.stem}-{number}")


_BLANK = np.full((8, 8, 3), 36, np.uint8)
"""Colour of the panel."""
_WIDTH = 400
_DIVIDER = np.array([255, 160, 40], np.uint8)


class Comparison:
    """Panel folder: the photograph left of a slider, the render right of it; or their difference.

    Hidden until it has a picture: on phones, the panel covers the scene.
    """

    def __init__(self, server: ViserServer) -> None:
        self._photograph: np.ndarray | None = None
        self._rendered = _BLANK
        self._folder = server.gui.add_folder("Compare", visible=False)
        with self._folder:
            self._title = server.gui.add_markdown("")
            self._image = server.gui.add_image(_BLANK, format="jpeg", jpeg_quality=90)
            self._share = server.gui.add_slider("Photograph", 0, 100, 1, 50, hint="Share shown on the left, in percent")
            self._difference = server.gui.add_checkbox(
                "Difference", False, hint="Absolute difference, brightened four times"
            )
        self._share.on_update(lambda _: self._draw())
        self._difference.on_update(lambda _: self._draw())

    def show(self, name: str, rendered: np.ndarray, photograph: np.ndarray | None) -> None:
        """Show pictures uint8 [H, W, 3] of equal size; without a photograph, the render alone."""
        self._rendered, self._photograph = rendered, photograph
        fact = "no photograph" if photograph is None else f"PSNR {psnr(rendered, photograph):.2f} dB"
        self._title.content = f"**{name}**, {fact}"
        self._folder.visible = True
        self._draw()

    def _draw(self) -> None:
        both = padded(compose(self._rendered, self._photograph, self._share.value / 100, self._difference.value))
        times = max(1, round(_WIDTH / both.shape[1]))  # enlarges small pictures to the panel's width
        self._image.image = both.repeat(times, axis=0).repeat(times, axis=1)


def compose(rendered: np.ndarray, photograph: np.ndarray | None, share: float, difference: bool) -> np.ndarray:
    """Left `share` from the photograph and the rest from the render, or four times their absolute difference."""
    if photograph is None:
        return rendered
    if difference:
        return np.clip(4 * np.abs(rendered.astype(np.int16) - photograph), 0, 255).astype(np.uint8)
    border = round(share * rendered.shape[1])
    both = np.concatenate([photograph[:, :border], rendered[:, border:]], axis=1)
    if 0 < border < rendered.shape[1]:
        both[:, border] = _DIVIDER
    return both


def padded(picture: np.ndarray) -> np.ndarray:
    """The picture. A portrait is padded to a square to limit its height in the panel."""
    height, width = picture.shape[:2]
    missing = max(height - width, 0)
    square = np.empty((height, width + missing, 3), np.uint8)
    square[:] = _BLANK[0, 0]
    square[:, missing // 2 : missing // 2 + width] = picture
    return square


_MEASURE_COLOR = (255, 220, 60)
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
        on_switch: Callable[[bool], None],
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
            scene.add_icosphere(f"/measure/{number}", self._size, _MEASURE_COLOR, position=point)
            for number, point in enumerate(self.points)
        ]
        if len(self.points) == 2:
            ends = np.array(self.points, np.float32)
            line = scene.add_line_segments(
                "/measure/line", ends[None], _MEASURE_COLOR, thickness=2, thickness_units="screen"
            )
            self._marks += [line, scene.add_label("/measure/label", text, position=ends.mean(axis=0))]
        self._status.content = text
