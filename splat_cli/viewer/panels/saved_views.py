"""Views that the user saves to a JSON file for `splat render`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from splat_cli.errors import SplatError
from splat_cli.scene.cameras_json import write_cameras
from splat_cli.scene.view import View
from splat_cli.viewer.viser_camera import field_of_view, pose_of, view_from

if TYPE_CHECKING:
    from viser import ViserServer

_COLOR = (90, 220, 120)


class SavedViews:
    """Panel folder: saves the current camera of a browser to `file`.

    size: size of the pyramids of saved views, world units.
    """

    def __init__(self, server: ViserServer, file: Path, size: float) -> None:
        self.views: list[View] = []
        self._server, self._file, self._size = server, file, size
        self._frustums: list[Any] = []
        with server.gui.add_folder("Saved views", expand_by_default=False):
            save = server.gui.add_button("Save this view")
            remove = server.gui.add_button("Remove the last")
            self._status = server.gui.add_markdown("None saved yet.")
        save.on_click(lambda event: self._add(event.client))
        remove.on_click(lambda _: self._remove())

    def _add(self, client: Any) -> None:
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
                color=_COLOR,
                position=position,
                wxyz=rotation,
            )
        )
        self.views.append(view)
        self._save()

    def _remove(self) -> None:
        if self.views:
            self.views.pop()
            self._frustums.pop().remove()
            self._save()

    def _save(self) -> None:
        try:
            if self.views:
                write_cameras(self._file, self.views)
            else:
                self._file.unlink(missing_ok=True)
        except (SplatError, OSError) as error:
            self._status.content = f"Not saved: {error}"
            return
        self._status.content = f"{len(self.views)} in `{self._file}`" if self.views else "None saved yet."
