"""Views that the user saves to a JSON file for `splat render`."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from splat_cli.errors import SplatError
from splat_cli.scene.cameras_json import write_cameras
from splat_cli.scene.view import View
from splat_cli.viewer.server import field_of_view, pose_of, view_from

if TYPE_CHECKING:
    from viser import ViserServer

_COLOR = (90, 220, 120)


class SavedViews:
    """Panel folder: saves the current camera of a browser to `file`, or to FILE-2, ... if another viewer has that one.

    size: size of the pyramids of saved views, world units. file: None without saved views.
    """

    def __init__(self, server: ViserServer, file: Path, size: float) -> None:
        self.views: list[View] = []
        self.file: Path | None = None
        self._server, self._wanted, self._size = server, file, size
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
                color=_COLOR,
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
                write_cameras(self.file, self.views)
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
