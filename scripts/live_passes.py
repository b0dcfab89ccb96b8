"""Times of the passes of a live trainer, on the splats that a run really has: `bench_kernels.py live`."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from splat_cli.device import Backend
from splat_cli.device.backend import Timer
from splat_cli.render.camera import TILE
from splat_cli.render.captured_graph import CapturedGraph
from splat_cli.render.project import LARGE_BOX, Projection
from splat_cli.train.trainer import Trainer

PIECE = 4  # tiles of a row that a lane looks at together: IN_FLIGHT of cuda_src/raster/tile_walk.cuh
SECTOR = 8  # values of 4 bytes that a GPU reads from memory together
WARM_UP = 8  # steps that load kernels and let the host get ahead of the device


@dataclass
class Work:
    """Means over views of what a step has to do; `coefficients` of the spherical harmonics a channel.

    in_seen_sectors: splats in memory sectors with one that a view of the batch shows. updated: splats whose geometry
    and constant colour are read and written: all or, with --visible-adam, those. adam_words: read and written for
    each parameter, of 4 bytes.
    """

    splats: float
    visible: float
    in_seen_sectors: float
    updated: float
    large: float
    pairs: float
    segments: float
    pixels: float
    coefficients: int
    adam_words: int


# Bytes that a pass must move through memory if caches keep what is read twice; gathers of splats by pair count as such.
BYTES: dict[str, Callable[[Work], float]] = {
    "project": lambda w: 48 * w.splats + (12 * w.coefficients + 88) * w.visible,
    "emit_tiles": lambda w: 4 * w.splats + 24 * w.visible + 8 * w.pairs,
    "sort_tiles": lambda w: 12 * w.pairs,
    "blend": lambda w: 44 * w.pairs + 4096 * w.segments + 20 * w.pixels,
    "l1_ssim": lambda w: (15 + 36) * w.pixels,
    "l1_ssim_backward": lambda w: (36 + 15 + 12) * w.pixels,
    "blend_backward": lambda w: (44 + 36) * w.pairs + 4096 * w.segments + 28 * w.pixels,
    "project_backward": lambda w: (
        4 * w.splats + (w.adam_words * 44 + 24) * w.updated + (64 + 12 * w.coefficients) * w.visible
    ),
    "color_backward": lambda w: (
        (4 + 12 * w.adam_words) * w.updated + (24 + 12 * w.adam_words * (w.coefficients - 1)) * w.in_seen_sectors
    ),
    "langevin_noise": lambda w: 56 * w.splats,
    "langevin_noise_of_visible": lambda w: 4 * w.splats + 56 * w.updated,
}


@contextmanager
def timed_launches(backend: Backend, record: Callable[[str, Timer], None]) -> Iterator[None]:
    """Within the block, `record` is given each kernel that the backend launches, with a timer around it.

    Branches are queued in order, since they would be timed together.
    """
    lookup = backend.kernel

    def in_order(launch: Callable[[], None]) -> Callable[[], None]:
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
        del backend.kernel, backend.branch  # the class's own are found again


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


def work_of(trainer: Trainer, num_steps: int) -> tuple[Work, int, int]:
    """What `num_steps` steps had to do; iterations of the worst warp, with the queue of large splats and without."""
    states, visible, in_seen_sectors, with_queue, without = [], list[int](), list[int](), 0, 0
    for _ in range(num_steps):
        trainer.batch_step.launch()
        state = trainer.state.read()
        states.append(state)
        visible.append(int(visible_splats(trainer.backend, trainer.rasterizer.projection, trainer.model.num).sum()))
        in_seen_sectors.append(
            num_in_seen_sectors(visible_splats(trainer.backend, trainer.rasterizer.updated, trainer.model.num))
        )
        rows, columns = box_tiles(trainer, int(state["view"]))
        pieces = rows * -(-columns // PIECE)
        without = max(without, worst_warp(pieces))
        with_queue = max(with_queue, worst_warp(np.where(rows * columns > LARGE_BOX, 0, pieces)))
    trainer.loop.sync()

    def mean(name: str) -> float:
        return float(np.mean([state[name] for state in states]))

    views = [trainer.cameras.current_views[int(state["view"])] for state in states]
    pixels = float(np.mean([view.width * view.height for view in views]))
    coefficients = (int(states[-1]["sh_degree"]) + 1) ** 2
    num_splats, in_sectors = mean("num_splats"), float(np.mean(in_seen_sectors))
    work = Work(
        splats=num_splats, visible=float(np.mean(visible)), in_seen_sectors=in_sectors,
        updated=in_sectors if trainer.config.visible_adam else num_splats,
        large=mean("num_large"), pairs=mean("num_pairs"), segments=mean("num_segments"), pixels=pixels,
        coefficients=coefficients, adam_words=4 if trainer.model.moments.packed else 6,
    )  # fmt: skip
    return work, with_queue, without


def visible_splats(backend: Backend, projection: Projection, num: int) -> np.ndarray:
    """Which of the first `num` splats the view, or a view of the batch, shows, bool [num]."""
    depths = backend.download(projection.depths)
    seen: np.ndarray = depths.reshape(-1, depths.shape[-1])[:, :num].any(axis=0)
    return seen


def num_in_seen_sectors(seen: np.ndarray) -> int:
    """Number of splats whose parameters lie in memory sectors with those of a seen one."""
    return SECTOR * int(np.pad(seen, (0, -len(seen) % SECTOR)).reshape(-1, SECTOR).any(axis=1).sum())


def worst_warp(pieces: np.ndarray) -> int:
    """Iterations of the warp with most pieces, int64 [num], of its 32 splats."""
    sums = np.pad(pieces, (0, -len(pieces) % 32)).reshape(-1, 32).sum(axis=1)
    return -(-int(sums.max()) // 32)


def box_tiles(trainer: Trainer, view_index: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of tiles of each splat's bounding box in the last view, int64 [num], 0 where not visible."""
    download, projection, view = (
        trainer.backend.download,
        trainer.rasterizer.projection,
        trainer.cameras.current_views[view_index],
    )
    num = trainer.model.num
    seen = download(projection.depths)[:num] > 0
    with np.errstate(invalid="ignore"):  # of splats that are not seen, anything
        centres = download(projection.means2d)[:num].astype(float)
    a, b, c, opacity = np.where(seen[:, None], download(projection.conic_opacity)[:num], [1, 0, 1, 1]).T.astype(float)
    reach, det = 2 * np.log(255 * np.maximum(opacity, 1 / 255)), np.maximum(a * c - b * b, 1e-30)
    counts = []
    for centre, variance, size in ((centres[:, 1], a, view.height), (centres[:, 0], c, view.width)):
        half = np.sqrt(reach * variance / det)
        centre = np.where(seen, centre, 0.0)
        first = np.clip(np.ceil((centre - half - TILE + 0.5) / TILE), 0, None)
        end = np.clip(np.floor((centre + half - 0.5) / TILE) + 1, None, -(-size // TILE))
        counts.append(np.where(seen, np.maximum(end - first, 0), 0).astype(np.int64))
    return counts[0], counts[1]


def table(trainer: Trainer, num_steps: int, bandwidth: float) -> str:
    """Markdown: a row a pass, and the whole step as training replays it. bandwidth: of the device, GB/s."""
    begin, generation = trainer.step, -1
    while generation != trainer.rasterizer.generation:  # until no buffer had to grow, which lets steps do nothing
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
    ]  # fmt: skip
    for name, values in times.items():
        ms, low, high = statistics.median(values), *np.percentile(values, [10, 90])
        size = BYTES[name](work) if name in BYTES else 0.0
        limit = f"{size / 1e6:.1f} | {size / ms / 1e6 / bandwidth:.0%}" if size else "|"
        lines.append(f"| {name} | {ms:.3f} | {low:.3f} to {high:.3f} | {limit} |")
    total = sum(statistics.median(values) for values in times.values())
    lines += [f"| sum | {total:.3f} | | | |", f"| step, replayed | {statistics.median(whole):.3f} | | | |", ""]
    return "\n".join(lines)
