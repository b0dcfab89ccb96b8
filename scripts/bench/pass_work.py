"""Work of the passes of a training step: splats, pairs and pixels, and the resulting bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from splat_cli.device import Backend, ceil_div
from splat_cli.render.camera import TILE
from splat_cli.render.project import LARGE_BOX, ProjectedBatch, Projection
from splat_cli.train.trainer import Trainer

PIECE = 4  # tiles of a row that a lane visits at once: IN_FLIGHT in cuda_src/raster/tile_walk.cuh
SECTOR = 8  # number of 4-byte values in a memory sector of a GPU


@dataclass
class Work:
    """Work of a step, as means over views; `coefficients` of the spherical harmonics per channel.

    in_seen_sectors: splats in memory sectors with at least one visible splat of the batch. updated: splats whose
    geometry and constant colour are read and written: all, or those in seen sectors with --visible-adam.
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


# Bytes that a pass must move if caches serve repeated reads; gathers of splats count once per pair.
BYTES: dict[str, Callable[[Work], float]] = {
    "project": lambda w: 48 * w.splats + (12 * w.coefficients + 88) * w.visible,
    "emit_tiles": lambda w: 4 * w.splats + 24 * w.visible + 8 * w.pairs,
    "sort_tiles": lambda w: 12 * w.pairs,
    "blend": lambda w: 44 * w.pairs + 4096 * w.segments + 20 * w.pixels,
    "l1_ssim": lambda w: (15 + 36) * w.pixels,
    "l1_ssim_backward": lambda w: (36 + 15 + 12) * w.pixels,
    "blend_backward": lambda w: (44 + 36) * w.pairs + 4096 * w.segments + 28 * w.pixels,
    "project_backward": lambda w: 4 * w.splats + 288 * w.updated + (64 + 12 * w.coefficients) * w.visible,
    "color_backward": lambda w: 76 * w.updated + (24 + 24 * (w.coefficients - 1)) * w.in_seen_sectors,
}


def work_of(trainer: Trainer, num_steps: int) -> tuple[Work, int, int]:
    """Work of `num_steps` steps, and iterations of the slowest warp, with the queue of large splats and without."""
    states, visible, in_seen_sectors, with_queue, without = [], list[int](), list[int](), 0, 0
    for _ in range(num_steps):
        trainer.batch_step.launch()
        state = trainer.state.read()
        states.append(state)
        visible.append(int(visible_splats(trainer.backend, trainer.rasterizer.projection, trainer.model.num).sum()))
        in_seen_sectors.append(
            num_in_seen_sectors(visible_splats(trainer.backend, trainer.rasterizer.projected_batch, trainer.model.num))
        )
        rows, columns = box_tiles(trainer, int(state["view"]))
        pieces = rows * (-(-columns // PIECE))
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
        splats=num_splats,
        visible=float(np.mean(visible)),
        in_seen_sectors=in_sectors,
        updated=in_sectors if trainer.config.visible_adam else num_splats,
        large=mean("num_large"),
        pairs=mean("num_pairs"),
        segments=float(np.mean([state["segments_in_bins"].sum() for state in states])),
        pixels=pixels,
        coefficients=coefficients,
    )
    return work, with_queue, without


def visible_splats(backend: Backend, projection: Projection | ProjectedBatch, num: int) -> np.ndarray:
    """Mask bool [num] of the first `num` splats: whether the view, or any view of the batch, shows a splat."""
    depths = backend.download(projection.depths)
    return np.any(depths.reshape(-1, depths.shape[-1])[:, :num], axis=0)


def num_in_seen_sectors(seen: np.ndarray) -> int:
    """Number of splats with parameters in the same memory sectors as a seen splat."""
    return SECTOR * int(np.pad(seen, (0, -len(seen) % SECTOR)).reshape(-1, SECTOR).any(axis=1).sum())


def worst_warp(pieces: np.ndarray) -> int:
    """Iterations of the warp with the most pieces, int64 [num], of its 32 splats."""
    sums = np.pad(pieces, (0, -len(pieces) % 32)).reshape(-1, 32).sum(axis=1)
    return ceil_div(int(sums.max()), 32)


def box_tiles(trainer: Trainer, view_index: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of tiles of each splat's bounding box in the last view, int64 [num], 0 where not visible."""
    download, projection, view = (
        trainer.backend.download,
        trainer.rasterizer.projection,
        trainer.cameras.current_views[view_index],
    )
    num = trainer.model.num
    seen = download(projection.depths)[:num] > 0
    with np.errstate(invalid="ignore"):  # invisible splats may have any values
        centres = download(projection.means2d)[:num].astype(float)
    a, b, c, opacity = np.where(seen[:, None], download(projection.conic_opacity)[:num], [1, 0, 1, 1]).T.astype(float)
    reach, det = 2 * np.log(255 * np.maximum(opacity, 1 / 255)), np.maximum(a * c - b * b, 1e-30)
    counts = []
    for centre, variance, size in ((centres[:, 1], a, view.height), (centres[:, 0], c, view.width)):
        half = np.sqrt(reach * variance / det)
        centre = np.where(seen, centre, 0.0)
        first = np.clip(np.ceil((centre - half - TILE + 0.5) / TILE), 0, None)
        end = np.clip(np.floor((centre + half - 0.5) / TILE) + 1, None, ceil_div(size, TILE))
        counts.append(np.where(seen, np.maximum(end - first, 0), 0).astype(np.int64))
    return counts[0], counts[1]
