"""Live viewer of camera poses while they are estimated, and of a training run: a callback that takes little time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from splat_cli.run.storage.find_run import is_run
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.sfm import Placed
from splat_cli.scene.trajectories.focus import look_at, mean_up, perpendicular
from splat_cli.scene.view import View
from splat_cli.terminal.console import Display, Progress
from splat_cli.train.trainer import Trainer
from splat_cli.viewer.panels import CAMERA_COLOR, FRUSTUM
from splat_cli.viewer.server import move_camera, serving
from splat_cli.viewer.splat_source import LiveSource
from splat_cli.viewer.window import Window, serve_until_interrupt

if TYPE_CHECKING:
    from viser import ViserServer


class Throttle:
    """Limits interruptions to `share` of the time: after a slow one, it delays the next one."""

    def __init__(self, share: float = 0.05) -> None:
        self._waits = 1 / share - 1
        self._next = 0.0

    def due(self) -> bool:
        """Whether an interruption is allowed now."""
        return time.perf_counter() >= self._next

    @contextmanager
    def interruption(self) -> Iterator[None]:
        """Measures the time of an interruption."""
        began = time.perf_counter()
        yield
        ended = time.perf_counter()
        self._next = ended + (ended - began) * self._waits


_NUM_VIEWS = 4
"""Views over which opacities are averaged in each update."""
_GRAY = 180
"""Level of points before their colours are known."""
_FRAMED, _DISTANCE = 0.8, 2.0  # share of cameras and of points within a radius; distance of the overview, in radii
_BEHIND, _ABOVE = 0.9, 0.45  # the same, in distances, from the middle
_ALL_AROUND = 0.1  # length of the mean direction of cameras that look into all


@contextmanager
def training_viewer(wanted: bool, host: str, port: int, display: Display) -> Iterator[TrainingViewer | None]:
    """Context with a viewer of the training, if `wanted`; afterwards it is served until Ctrl-C. UsageError."""
    if not wanted:
        yield None
        return
    with serving(host, port, display) as server:
        viewer = TrainingViewer(server, display)
        yield viewer
        viewer.wait_until_interrupt()


class MappingViewer:
    """Shows cameras and points while photographs are placed."""

    def __init__(self, server: ViserServer, display: Display) -> None:
        self._server, self._display = server, display
        self._is_broken = False
        self._folder = server.gui.add_folder("Camera poses")
        with self._folder:
            self._status = server.gui.add_markdown("Features and matches ...")
        self._shown: list[Any] = []
        self._places: dict[int, list[np.ndarray]] = {}  # of a browser's camera, unless somebody moved it

    def show(self, placed: Placed) -> None:
        """Show what is placed, as a whole in browsers whose camera nobody has moved. Warns of the first failure."""
        if self._is_broken:
            return
        try:
            self._draw(placed)
        except Exception as error:  # of any type: the estimate is worth more than its picture
            self._is_broken = True
            self._display.warn(f"the viewer shows no further camera poses, their estimate continues: {error!r}")

    def _draw(self, placed: Placed) -> None:
        self._status.content = f"**{len(placed.w2c):,}** photographs placed  \n{len(placed.points):,} points shown"
        overview, distance = _overview(placed)
        colors = placed.colors if placed.colors.any() else np.full_like(placed.colors, _GRAY)
        scene, size = self._server.scene, FRUSTUM * distance
        with self._server.atomic():
            self._shown = [
                scene.add_point_cloud("/placed/points", placed.points, colors, point_size=size / 20),
                scene.add_line_segments(
                    "/placed/cameras", _pyramids(placed, size), CAMERA_COLOR, thickness=1.5, thickness_units="screen"
                ),
            ]
            scene.set_up_direction(mean_up(placed.w2c))
        for number, client in self._server.get_clients().items():
            here = np.array(client.camera.position)  # a slow browser still states an earlier one
            places = self._places.setdefault(number, [here])
            if min(np.linalg.norm(here - place) for place in places) < 1e-3 * distance:
                move_camera(client, overview, distance)
                places.append(overview.center)

    def remove(self) -> None:
        """Remove everything again."""
        for one in (*self._shown, self._folder):
            one.remove()


def _centers(placed: Placed) -> np.ndarray:
    """Positions of the cameras, float32 [N, 3]."""
    return -np.einsum("nji,nj->ni", placed.w2c[:, :, :3], placed.w2c[:, :, 3])


def _overview(placed: Placed) -> tuple[View, float]:
    """A camera behind most of the placed ones and above them, which sees most of what is placed; its distance."""
    centers, up = _centers(placed), mean_up(placed.w2c)
    middle = np.median(np.concatenate([centers, placed.points]), axis=0).astype(float)
    parts = [np.linalg.norm(part - middle, axis=1) for part in (centers, placed.points) if len(part)]
    radius = max(float(np.quantile(away, _FRAMED)) for away in parts) or 1.0
    ahead = placed.w2c[:, 2, :3].mean(axis=0, dtype=float)
    ahead -= (ahead @ up) * up
    length = float(np.linalg.norm(ahead))
    back = -ahead / length if length > _ALL_AROUND else perpendicular(up)
    distance = _DISTANCE * radius
    w2c = look_at(middle + distance * (_BEHIND * back + _ABOVE * up), middle, up)
    return View("overview", None, 960, 720, 720.0, 720.0, 480.0, 360.0, w2c), distance


def _pyramids(placed: Placed, size: float) -> np.ndarray:
    """Edges of the cameras' pyramids, `size` deep: float32 [8 N, 2, 3]."""
    corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)], np.float32) * placed.slopes[:, None]
    rays = np.concatenate([corners, np.ones_like(corners[..., :1])], axis=2)
    centers = np.repeat(_centers(placed)[:, None], 4, axis=1)
    ends = centers + size * np.einsum("nji,nkj->nki", placed.w2c[:, :, :3], rays)
    sides = np.stack([centers, ends], axis=2)
    bases = np.stack([ends, np.roll(ends, -1, axis=1)], axis=2)
    return np.concatenate([sides, bases], axis=1).reshape(-1, 2, 3)


@contextmanager
def mapping_viewer(host: str, port: int, display: Display) -> Iterator[Callable[[Placed], None]]:
    """Context with a function that shows what is placed; afterwards it is served until Ctrl-C. UsageError."""
    with serving(host, port, display) as server:
        yield MappingViewer(server, display).show
        display.say("Camera poses are done; press Ctrl-C to close the viewer")
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(1)


class TrainingViewer:
    """Training callback (run/session.py) that shows the splats in browsers and pauses training on request.

    Updates take at most 5% of the time, and almost none without a browser.
    """

    def __init__(self, server: ViserServer, display: Display) -> None:
        self._server, self._display = server, display
        self._throttle = Throttle()
        self._source = LiveSource()
        self._window: Window | None = None
        self._mapping: MappingViewer | None = None
        self._shown_step = -1
        self._last = (time.perf_counter(), 0)
        with server.gui.add_folder("Training"):
            self._status = server.gui.add_markdown("Starting ...")
            self._pause = server.gui.add_button("Pause")
        self._paused = False
        self._pause.on_click(lambda _: self._toggle())

    def show_placed(self, placed: Placed) -> None:
        """Show cameras and points while poses are estimated, before training."""
        self._mapping = self._mapping or MappingViewer(self._server, self._display)
        self._mapping.show(placed)

    def begin(self, trainer: Trainer, run: RunDir) -> None:
        """Show the initial splats."""
        if self._mapping is not None:
            self._mapping.remove()
            self._mapping = None
        self._source.trainer = trainer
        self._last = (time.perf_counter(), trainer.step)
        if self._window is None:
            kept = run.path / "views.json"
            origin = run.origin() if is_run(run.path) else ()
            self._window = Window(self._server, self._source, kept, _NUM_VIEWS, origin)

    def end(self) -> None:
        """See TrainingCallback.end."""
        self._source.trainer = None

    def on_steps(self, trainer: Trainer, progress: Progress, check: Callable[[], None]) -> None:
        """Show the progress; blocks while training is paused."""
        if self._window is None or not (self._paused or self._server.get_clients()):
            return
        self._show_progress(progress, trainer.config.steps)
        if self._paused or self._throttle.due():
            self._refresh(progress.step)
        self._window.work()
        while self._paused:
            check()
            self._window.wait()

    def wait_until_interrupt(self) -> None:
        """Show the result until Ctrl-C."""
        if self._window is None:
            return
        self._pause.disabled = True
        self._display.say("Training is done; press Ctrl-C to close the viewer")
        with suppress(KeyboardInterrupt):
            self._window.refresh()
            serve_until_interrupt(self._window)

    def _refresh(self, step: int) -> None:
        if self._window is not None and step != self._shown_step:
            with self._throttle.interruption():
                self._window.refresh()
            self._shown_step = step

    def _show_progress(self, progress: Progress, num_steps: int) -> None:
        now, (then, step) = time.perf_counter(), self._last
        if now - then < 0.5 and not self._paused:
            return
        speed = (progress.step - step) / (now - then)
        self._last = (now, progress.step)
        psnr = "" if progress.psnr is None else f"train PSNR {progress.psnr:.2f} dB, "
        self._status.content = (
            f"Step **{progress.step:,}** of {num_steps:,}, {speed:.0f} per second  \n"
            f"{psnr}loss {progress.loss:.4f}  \n{progress.num_splats:,} splats"
        )

    def _toggle(self) -> None:
        self._paused = not self._paused
        self._pause.label = "Continue" if self._paused else "Pause"
