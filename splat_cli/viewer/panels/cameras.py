"""Cameras in the viewer: clickable pyramids with thumbnails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from splat_cli.scene.extent import scene_extent
from splat_cli.scene.trajectories.focus import focus_point
from splat_cli.scene.view import View
from splat_cli.viewer.html import pivot_share
from splat_cli.viewer.server import field_of_view, move_camera, pose_of

if TYPE_CHECKING:
    from viser import ClientHandle, ViserServer

THUMBNAIL = 128
"""Longer side of a thumbnail, approximately, in pixels."""
FRUSTUM = 0.04
"""Size of a pyramid, relative to the scene's extent."""
_CLEAR = 4
"""Pyramids within this distance of the selected camera, relative to their size, are hidden."""
_COLOR = (255, 160, 40)


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
            color=_COLOR,
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
        self._visited = index
        self._arrange()
        self._on_visit(index)
