"""Times of the passes of a live trainer, on the splats of a real run: `bench_kernels.py live`."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from pass_work import BYTES, work_of

from splat_cli.device import Backend
from splat_cli.device.backend import Timer
from splat_cli.train.step import CapturedGraph
from splat_cli.train.trainer import Trainer

WARM_UP = 8  # steps to load kernels and to let the host get ahead of the device


@contextmanager
def timed_launches(backend: Backend, record: Callable[[str, Timer], None]) -> Iterator[None]:
    """Within the block, `record` gets the name and the timer of each kernel that the backend launches.

    Branches run in order: concurrent kernels cannot be timed one by one.
    """
    lookup = backend.kernel

    def in_order(launch: Callable[[], None], number: int = 0) -> Callable[[], None]:
        launch()
        return lambda: None

    def timed_kernel(file: str, name: str, **defines: int) -> Callable[..., None]:
        kernel = lookup(file, name, **defines)

        def launch(*args: Any) -> None:
            timer = backend.timer()
            with timer:
                kernel(*args)
            record(name, timer)

        return launch

    backend.kernel, backend.branch = timed_kernel, in_order  # type: ignore[method-assign]
    try:
        yield
    finally:
        del backend.kernel, backend.branch  # restores the methods of the class


def pass_times(trainer: Trainer, num_steps: int) -> dict[str, list[float]]:
    """Milliseconds of each kernel in each of `num_steps` steps of training, in the order of their launches.

    The host queues all steps at once and stays ahead of the device, which never waits between two events. Launches of
    the same kernel count together.
    """
    rows: list[list[tuple[str, Timer]]] = []
    with timed_launches(trainer.backend, lambda name, timer: rows[-1].append((name, timer))):
        for _ in range(num_steps + WARM_UP):
            rows.append([])
            trainer.batch_step.launch()
    times: dict[str, list[float]] = {}
    for row in rows[WARM_UP:]:
        sums: dict[str, float] = defaultdict(float)
        for name, timer in row:
            sums[name] += timer.ms
        for name, ms in sums.items():
            times.setdefault(name, []).append(ms)
    trainer.loop.sync()
    return times


def step_times(trainer: Trainer, num_steps: int) -> list[float]:
    """Milliseconds of `num_steps` steps of training, each a replay of the captured step."""
    graph, timers = CapturedGraph(trainer.rasterizer, trainer.batch_step.launch), []
    graph.run(WARM_UP)
    for _ in range(num_steps):
        timers.append(trainer.backend.timer())
        with timers[-1]:
            graph.run(1)
    times = [timer.ms for timer in timers]
    trainer.loop.sync()
    return times


def table(trainer: Trainer, num_steps: int, bandwidth: float) -> str:
    """Markdown: a row per pass, and the whole step as training replays it. bandwidth: of the device, GB/s."""
    begin, generation = trainer.step, -1
    while generation != trainer.rasterizer.generation:  # again if a buffer grew: its step did nothing
        generation = trainer.rasterizer.generation
        times, whole = pass_times(trainer, num_steps), step_times(trainer, num_steps)
        work, with_queue, without = work_of(trainer, min(num_steps, 16))
    lines = [
        f"From step {begin} on: {work.splats:,.0f} splats, {work.visible:,.0f} visible, {work.updated:,.0f} updated, "
        f"{work.large:,.0f} large, {work.pairs:,.0f} pairs, {work.pixels:,.0f} pixels; worst warp "
        f"{with_queue} iterations, {without} without the queue of large splats",
        "",
        "| pass | ms | 10 to 90 % | MB | of bandwidth |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, values in times.items():
        ms, low, high = statistics.median(values), *np.percentile(values, [10, 90])
        size = BYTES[name](work) if name in BYTES else 0.0
        limit = f"{size / 1e6:.1f} | {size / ms / 1e6 / bandwidth:.0%}" if size else "|"
        lines.append(f"| {name} | {ms:.3f} | {low:.3f} to {high:.3f} | {limit} |")
    total = sum(statistics.median(values) for values in times.values())
    lines += [f"| sum | {total:.3f} | | | |", f"| step, replayed | {statistics.median(whole):.3f} | | | |", ""]
    return "\n".join(lines)
