"""Live viewer of a training run, as a training callback that takes a bounded share of the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from splat_cli.run.storage.run_dir import RunDir
from splat_cli.terminal.console import Display, Progress
from splat_cli.train.trainer import Trainer
from splat_cli.viewer.server import serving
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


class TrainingViewer:
    """Training callback (run/session.py) that shows the splats in browsers and pauses training on request.

    Updates take at most 5% of the time, and almost none without a browser.
    """

    def __init__(self, server: ViserServer, display: Display) -> None:
        self._server, self._display = server, display
        self._throttle = Throttle()
        self._source = LiveSource()
        self._window: Window | None = None
        self._shown_step = -1
        self._last = (time.perf_counter(), 0)
        with server.gui.add_folder("Training"):
            self._status = server.gui.add_markdown("Starting ...")
            self._pause = server.gui.add_button("Pause")
        self._paused = False
        self._pause.on_click(lambda _: self._toggle())

    def begin(self, trainer: Trainer, run: RunDir) -> None:
        """Show the initial splats."""
        self._source.trainer = trainer
        self._last = (time.perf_counter(), trainer.step)
        if self._window is None:
            self._window = Window(self._server, self._source, run.path / "views.json", _NUM_VIEWS)

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
