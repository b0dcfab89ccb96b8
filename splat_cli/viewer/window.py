"""The viewer of splats: their contents as viser shows them, cameras, the panel and its crop; `browse` serves it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from splat_cli.device import Backend, DeviceArray
from splat_cli.gaussians.arrays import SH_C0, rotations
from splat_cli.gaussians.ply import origin_of_file
from splat_cli.gaussians.splats import LOG_SCALES, MEANS, OPACITY, QUATS, SH0, Splats
from splat_cli.render.bake_antialiasing import without_antialiasing
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import Projection, project
from splat_cli.scene.crop import Box, Crop
from splat_cli.scene.extent import scene_extent
from splat_cli.scene.trajectories.focus import UP, overview, up_direction
from splat_cli.scene.view import View, evenly_spread
from splat_cli.terminal.console import Display
from splat_cli.viewer.html import pivot_point, pivot_share
from splat_cli.viewer.panels import FRUSTUM, Cameras, Comparison, Measure, SavedViews, surface_point
from splat_cli.viewer.server import require_viser, serving, set_start, view_from
from splat_cli.viewer.splat_source import SplatSource, open_source, picture

if TYPE_CHECKING:
    from viser import ViserServer


_AXES = "xyz"
_COLOR = (90, 200, 255)


class CropPanel:
    """Panel folder with a crop box. box: region in which splats are shown, or None. on_change: called on changes."""

    def __init__(self, server: ViserServer, centers: np.ndarray, on_change: Callable[[], None]) -> None:
        self._server, self._on_change = server, on_change
        low, high = np.quantile(centers, (0.005, 0.995), axis=0) if len(centers) else (-np.ones(3), np.ones(3))
        margin = 0.05 * (high - low) + 1e-3
        self.box: Box | None = None
        with server.gui.add_folder("Crop", expand_by_default=False):
            self._on = server.gui.add_checkbox("Crop", False)
            self._sliders = [
                _slider(server, axis, float(a), float(b))
                for axis, a, b in zip(_AXES, low - margin, high + margin, strict=True)
            ]
            self._option: Any = server.gui.add_text(
                "Option", "", disabled=True, visible=False, hint="For splat export and splat train"
            )
        for control in (self._on, *self._sliders):
            control.on_update(lambda _: self._changed())

    def _changed(self) -> None:
        corners = [slider.value for slider in self._sliders]
        low, high = (tuple(float(corner[end]) for corner in corners) for end in (0, 1))
        kept = self._on.value and all(a < b for a, b in corners)
        self.box = Box((low[0], low[1], low[2]), (high[0], high[1], high[2])) if kept else None
        self._option.value = "--crop " + ",".join(f"{value:g}" for value in (*low, *high))
        self._option.visible = kept
        self._server.scene.add_box(
            "/crop",
            color=_COLOR,
            dimensions=tuple(max(b - a, 1e-6) for a, b in corners),
            wireframe=True,
            position=tuple((a + b) / 2 for a, b in corners),
            visible=self.box is not None,
        )
        self._on_change()


def _slider(server: ViserServer, axis: str, low: float, high: float) -> Any:
    step = float(f"{(high - low) / 200:.1g}")
    low, high = np.floor(low / step) * step, np.ceil(high / step) * step
    return server.gui.add_multi_slider(axis, float(low), float(high), step, (float(low), float(high)))


_MARK = 0.01  # radius of the marks of measured points, in scene extents
_FAINTEST = 1 / 255
_LARGEST = 6e4  # maximum of covariances, stored as 16-bit floats
_POLL_SECONDS = 0.05
_REST_SECONDS = 0.25
"""Seconds without camera movement before colours are computed: an update would interrupt a movement."""


@dataclass(frozen=True)
class Appearance:
    """N splats, float32; one colour each, 0 to 1."""

    centers: np.ndarray  # [N, 3]
    covariances: np.ndarray  # [N, 3, 3]
    rgbs: np.ndarray  # [N, 3]
    opacities: np.ndarray  # [N, 1]
    numbers: np.ndarray  # int [N], among the splats of the source

    def inside(self, crop: Crop) -> Appearance:
        """The splats with centres inside a region."""
        kept = crop.contains(self.centers)
        return Appearance(**{name: array[kept] for name, array in vars(self).items()})

    def seen_from(self, view: View, splats: Splats) -> Appearance:
        """The same with the colours that `view` sees; others stay. splats: of the source."""
        colors, seen = (splats.backend.download(array)[self.numbers] for array in _colors_in_views(splats, [view]))
        return dataclasses.replace(self, rgbs=np.where(seen, np.clip(colors, 0, 1), self.rgbs))

    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arrays that viser shows, in its order; it would cut off the fractions of 8-bit numbers."""
        rgbs, opacities = (np.rint(255 * array).astype(np.uint8) for array in (self.rgbs, self.opacities))
        return self.centers, self.covariances, rgbs, opacities


def appearance(splats: Splats, views: Sequence[View] = (), num_views: int = 64, antialiased: bool = True) -> Appearance:
    """Splats as viser shows them, adapted to at most `num_views` of the views: one colour, no antialiasing.

    antialiased: whether the splats were trained with antialiasing; with views, sizes and opacities are then baked.
    Computed on the device, to reduce transfers. Invisible and non-finite splats are removed.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # non-finite splats are removed below
        colors = mean_colors(splats, views, num_views)
        if antialiased and views and splats.num:
            splats = without_antialiasing(splats, views, num_views)
        xp, params = splats.backend.xp, splats.params[:, : splats.num]
        opacities = 1 / (1 + xp.exp(-params[OPACITY]))
        axes = rotations(xp, params[QUATS]) * xp.exp(params[LOG_SCALES]).T[:, None]  # [N, 3, 3], one axis per column
        covariances = xp.clip(xp.einsum("nik,njk->nij", axes, axes), -_LARGEST, _LARGEST)
    finite = xp.isfinite(params[:14]).all(axis=0) & xp.isfinite(covariances).all(axis=(1, 2))
    kept = finite & (opacities >= _FAINTEST)
    columns = (params[MEANS].T, covariances, colors, opacities[:, None], xp.arange(splats.num))
    return Appearance(*(splats.backend.download(xp.ascontiguousarray(column[kept])) for column in columns))


def mean_colors(splats: Splats, views: Sequence[View], num_views: int) -> DeviceArray:
    """Mean colour of each splat over the views that show it, float32 [num, 3], 0 to 1; at most `num_views` are used.

    A splat that no view shows has its base colour, the SH coefficient of degree 0.
    """
    xp, colors = splats.backend.xp, 0.5 + SH_C0 * splats.params[SH0, : splats.num].T
    if views and splats.num:
        means, seen = _colors_in_views(splats, evenly_spread(views, num_views))
        colors = xp.where(seen, means, colors)
    return xp.clip(colors, 0, 1)


def _colors_in_views(splats: Splats, views: Sequence[View]) -> tuple[DeviceArray, DeviceArray]:
    """(mean colours float32 [num, 3] of the splats in the views that show them, whether a view does, bool [num, 1])."""
    backend, xp, num = splats.backend, splats.backend.xp, splats.num
    cameras, state = CameraTable(backend, views), IterState(backend, num_splats=num, sh_degree=splats.sh_degree)
    projected = Projection.allocate(backend, splats.capacity, cameras.max_tiles)
    total, count = xp.zeros((num, 3), "float32"), xp.zeros((num, 1), "float32")
    for view in range(len(views)):
        state.clear_counts()
        state.write(view=view)
        projected.tile_counts[...] = 0
        project(splats, cameras, state, False, projected)
        seen = projected.depths[:num, None] > 0
        total += xp.where(seen, projected.colors[:num, :3], 0)
        count += seen
    return total / xp.maximum(count, 1), count > 0


class Window:
    """Shows `source`. Construct and use it in the thread that owns the device.

    The server's threads only queue tasks; `work` runs them. kept_file: file of saved views. num_views: see
    `appearance`. origin: of the scene, if it has one.
    """

    def __init__(
        self, server: ViserServer, source: SplatSource, kept_file: Path, num_views: int, origin: Iterable[float] = ()
    ) -> None:
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
        hide_cameras = self._cameras.hide if views else lambda _: None
        Measure(server, self._surface_point, _MARK * scene_extent(views), hide_cameras)
        self.saved_views = SavedViews(server, kept_file, FRUSTUM * scene_extent(views), origin)
        self._missing = list(reversed(range(len(views))))  # cameras without a thumbnail yet
        self._handle = server.scene.add_gaussian_splats("/splats", *self._look.arrays())
        self._eye: View | None = None  # camera of the only browser, as last seen, and since when
        self._since = 0.0
        self._drawn: View | None = None  # camera whose colours are shown; None: mean colours

    def work(self) -> bool:
        """Run one task, or load one thumbnail; returns whether there may be more to do."""
        try:
            task = self._tasks.get_nowait()
        except Empty:
            return self._show_thumbnail()
        self._within_memory(task)
        return True

    def wait(self) -> None:
        """Colour the splats for the browser's camera if it rests; run a task, or wait a moment without one.

        The source must not have changed since `refresh`.
        """
        eye, now = self._camera(), time.perf_counter()
        if not _same(eye, self._eye):
            self._eye, self._since = eye, now
        elif now - self._since > _REST_SECONDS and not _same(eye, self._drawn):
            self._within_memory(self._recolor if eye else self._redraw)
        if not self.work():
            time.sleep(_POLL_SECONDS)

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
        self._recolor()

    def _recolor(self) -> None:
        """Show the colours that the browser's camera sees. The splats must be those of the last `_redraw`."""
        self._drawn = self._camera()
        if self._drawn and len(self._look.numbers):
            self._look = self._look.seen_from(self._drawn, self._subject.splats)
        self._draw()

    def _appearance(self) -> Appearance:
        source = self._subject
        return appearance(source.splats, source.views, self._num_views, source.config.antialias)

    def _set_stage(self, start: View, up: np.ndarray) -> None:
        """Set background, up direction and initial camera."""
        color = np.full((1, 1, 3), self._subject.background, np.float32)
        self._server.scene.set_background_image(color, format="png")
        self._server.scene.set_up_direction(up)
        distance = float(np.linalg.norm(pivot_point(self._look.centers, start) - start.center))
        set_start(self._server, start, pivot_share(self._subject.views) * distance)
        self._server.initial_camera.up = up

    def _camera(self) -> View | None:
        """Camera of the browser; None without one or with several, since all show the same splats."""
        clients = self._server.get_clients()
        return view_from(next(iter(clients.values())).camera, "browser") if len(clients) == 1 else None

    def _draw(self) -> None:
        self._handle.set_gaussians(*self._shown().arrays())

    def _shown(self) -> Appearance:
        return self._look if self._cropping.box is None else self._look.inside(self._cropping.box)

    def _surface_point(self, origin: np.ndarray, direction: np.ndarray) -> np.ndarray | None:
        look = self._shown()
        return surface_point(look.centers, look.covariances, look.opacities, origin, direction)

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


def _same(a: View | None, b: View | None) -> bool:
    if a is None or b is None:
        return a is b
    return np.array_equal(a.w2c, b.w2c) and (a.width, a.height) == (b.width, b.height)


_NUM_VIEWS = 64


def browse(path: Path, backend: Backend, host: str, port: int, display: Display, spz_axes: str) -> Path | None:
    """Show a run or a file until Ctrl-C; returns the file of saved views, None if none was saved.

    spz_axes: see read_splats.
    """
    require_viser()
    source = open_source(path, backend, display, spz_axes)
    kept = (source.run.path if source.run else Path()) / "views.json"
    origin = source.run.origin() if source.run else origin_of_file(path)
    window = None
    with serving(host, port, display) as server, suppress(KeyboardInterrupt):
        window = Window(server, source, kept, _NUM_VIEWS, origin)
        display.say("Press Ctrl-C to stop")
        serve_until_interrupt(window)
    return window.saved_views.file if window else None


def serve_until_interrupt(window: Window) -> None:
    """Process tasks of browsers until KeyboardInterrupt (Ctrl-C)."""
    while True:
        window.wait()
