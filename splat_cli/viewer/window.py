"""Contents of a live viewer: splats, cameras, and the panel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from splat_cli.scene.extent import scene_extent
from splat_cli.scene.trajectories.focus import up_direction
from splat_cli.scene.trajectories.overview import UP, overview
from splat_cli.scene.view import View
from splat_cli.viewer.camera_defaults import pivot_point, pivot_share
from splat_cli.viewer.panels.cameras import FRUSTUM, Cameras
from splat_cli.viewer.panels.comparison import Comparison
from splat_cli.viewer.panels.crop import CropPanel
from splat_cli.viewer.panels.saved_views import SavedViews
from splat_cli.viewer.splat_colors import Appearance, appearance
from splat_cli.viewer.splat_source import SplatSource, picture
from splat_cli.viewer.viser_camera import field_of_view

if TYPE_CHECKING:
    from viser import ViserServer


class Window:
    """Shows `source`. Constructed and used in the thread that owns the device.

    Threads of the server only queue tasks; `work` runs them. kept_file: file of saved views. num_views: see
    `appearance`.
    """

    def __init__(self, server: ViserServer, source: SplatSource, kept_file: Path, num_views: int) -> None:
        self._server, self._subject, self._num_views = server, source, num_views
        self._tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._look = self._appearance()
        views = source.views
        start = views[0] if views else overview(self._look.centers)
        self._set_stage(start, up_direction(views) if views else UP)
        if views:
            self._cameras = Cameras(server, views, lambda index: self._tasks.put(lambda: self._compare(index)))
            self._comparison = Comparison(server)
        self._cropping = CropPanel(server, self._look.centers, lambda: self._tasks.put(self._draw))
        SavedViews(server, kept_file, FRUSTUM * scene_extent(views))
        self._missing = list(reversed(range(len(views))))  # cameras without a thumbnail yet
        self._handle = server.scene.add_gaussian_splats("/splats", *self._look.arrays().values())

    def work(self) -> bool:
        """Run one task, or load one thumbnail; returns whether there may be more to do."""
        try:
            task = self._tasks.get_nowait()
        except Empty:
            return self._show_thumbnail()
        self._within_memory(task)
        return True

    def refresh(self) -> None:
        """Update the splats."""
        self._within_memory(self._redraw)

    def _within_memory(self, task: Callable[[], None]) -> None:
        """Turn MemoryError into a notification in browsers; training must not end."""
        try:
            task()
        except MemoryError:
            for client in self._server.get_clients().values():
                client.add_notification("No memory", "Not enough device memory to show this.", color="red")

    def _redraw(self) -> None:
        self._look = self._appearance()
        self._draw()

    def _appearance(self) -> Appearance:
        source = self._subject
        return appearance(source.splats, source.views if source.config.antialias else (), self._num_views)

    def _set_stage(self, start: View, up: np.ndarray) -> None:
        """Set background, up direction and initial camera."""
        color = np.full((1, 1, 3), self._subject.background, np.float32)
        self._server.scene.set_background_image(color, format="png")
        self._server.scene.set_up_direction(up)
        camera = self._server.initial_camera
        camera.position = start.center
        target = pivot_point(self._look.centers, start)
        camera.look_at = start.center + pivot_share(self._subject.views) * (target - start.center)
        camera.up = up
        camera.fov = field_of_view(start)

    def _draw(self) -> None:
        look = self._look if self._cropping.box is None else self._look.inside(self._cropping.box)
        self._handle.set_gaussians(*look.arrays().values())

    def _compare(self, index: int) -> None:
        name = self._subject.views[index].name
        self._comparison.show(name, picture(self._subject, index), self._subject.photograph(index))

    def _show_thumbnail(self) -> bool:
        if not self._missing:
            return False
        index = self._missing.pop()
        image = self._subject.photograph(index, self._cameras.thumbnail_step(index))
        if image is not None:
            self._cameras.set_thumbnail(index, image)
        return bool(self._missing)
