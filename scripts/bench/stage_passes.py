"""Times of the stages of the backward pass, and counted bytes moved, for `bench_kernels.py stages`."""

from __future__ import annotations

import dataclasses
import statistics
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from blend_stages import OURS, STAGES, Stage, gradients, last_pairs
from step_passes import time_replay

from splat_cli.device import Backend, ceil_div
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.blend import SEGMENT
from splat_cli.render.camera import TILE, CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import RasterizationSettings
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.view import View

MIN_ALPHA = 1 / 255
REPLAYS = {"cuda": 4, "cpu": 1}  # replays timed together
MAX_SECONDS = 0.5  # per stage and view; at least three times REPLAYS


@dataclass(frozen=True)
class Work:
    """Work of the backward pass of a view.

    hits: pairs of a splat and a pixel that it changes; hits_WxH: pairs of a splat and a warp of W x H pixels.
    """

    pixels: int
    pairs: int  # pairs of a splat and a tile
    reached_pairs: int  # pairs in segments with at least one active pixel
    segments: int
    warp_visits: int  # pairs of a splat and a warp of 16x2 pixels where the splat may still reach a pixel
    hits: int
    hits_16x2: int
    hits_8x4: int
    hits_8x8: int


def num_bytes(stage: Stage, work: Work) -> float:
    """Bytes that the stage moves in global memory. A read shared by a warp counts once, an atomic as 4 bytes."""
    splats = 44 * getattr(work, stage.reads) + 36 * getattr(work, stage.adds)
    per_pixel, saved = (28, 4096 * work.segments) if stage.moments else (20, 0)
    return float(splats + per_pixel * work.pixels + saved)


def count_work(raster: Rasterizer, state: IterState, view: View) -> Work:
    """Counts for the last view of the forward pass, in NumPy: a second or two for a photograph."""
    download, tiles, projection = raster.backend.download, raster.tiles, raster.projection
    begins, pairs = download(tiles.tile_begins).astype(np.int64), download(tiles.splat_from_pair)
    means, shapes = download(projection.means2d), download(projection.conic_opacity)
    columns, rows = ceil_div(view.width, TILE), ceil_div(view.height, TILE)
    lasts = np.zeros((rows * TILE, columns * TILE), np.int64)  # 0: nothing contributes outside the image
    num_pixels = view.width * view.height
    lasts[: view.height, : view.width] = download(last_pairs(raster, state))[:num_pixels].reshape(view.height, -1)
    counts = dict.fromkeys((field.name for field in dataclasses.fields(Work)), 0)
    counts |= {"pixels": num_pixels, "pairs": int(begins[rows * columns])}
    for tile, (row, column) in enumerate(np.ndindex(rows, columns)):
        begin, listed = begins[tile], begins[tile + 1] - begins[tile]
        last = lasts[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE] - begin
        num = int(last.max())
        if num <= 0:
            continue
        splats = pairs[begin : begin + num]
        on = _contributes(means[splats] - [column * TILE, row * TILE], shapes[splats])
        on &= np.arange(num)[:, None, None] < last
        counts["segments"] += ceil_div(num, SEGMENT)
        counts["reached_pairs"] += int(min(ceil_div(num, SEGMENT) * SEGMENT, listed))
        counts["warp_visits"] += int(last.reshape(TILE // 2, -1).max(axis=1).clip(0).sum())
        counts["hits"] += int(on.sum())
        for width, height in ((16, 2), (8, 4), (8, 8)):
            warps = on.reshape(num, TILE // height, height, TILE // width, width).any(axis=(2, 4))
            counts[f"hits_{width}x{height}"] += int(warps.sum())
    return Work(**counts)


def _contributes(means: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """bool [N, 16, 16]: alpha >= 1/255 at a tile's pixels; means float [N, 2] from its corner, shapes [N, 4]."""
    centres = np.arange(TILE, dtype=np.float32) + 0.5
    dx, dy = centres - means[:, :1, None], (centres - means[:, 1:])[:, :, None]
    a, b, c, opacity = (column[:, None, None] for column in shapes.T)
    return opacity * np.exp(-0.5 * (a * dx * dx + c * dy * dy) - b * dx * dy) >= MIN_ALPHA


def launch_stages(backend: Backend, arrays: SplatArrays, view: View, antialias: bool) -> None:
    """Launch each stage once, for a profiler."""
    splats, raster, state = _rasterizer(backend, arrays, [view], antialias)
    _render(raster, splats, state, 0)
    for stage in _stages(backend):
        _gradients(raster, state, stage)


def measure_stages(backend: Backend, arrays: SplatArrays, views: list[View], antialias: bool) -> dict[str, Any]:
    """Means over views of each stage's milliseconds and counts. `difference`: relative error of its gradients."""
    splats, raster, state = _rasterizer(backend, arrays, views, antialias)
    stages = _stages(backend)
    times: dict[str, list[float]] = {stage.name: [] for stage in stages}
    work, worst = [], dict.fromkeys(times, 0.0)
    for index, view in enumerate(views):
        _render(raster, splats, state, index)
        work.append(count_work(raster, state, view))
        expected = _gradients(raster, state, OURS)
        for stage in stages:
            difference = np.linalg.norm(_gradients(raster, state, stage) - expected, axis=0)
            worst[stage.name] = max(worst[stage.name], float((difference / np.linalg.norm(expected, axis=0)).max()))
            rows = backend.xp.zeros((splats.capacity, stage.columns), "float32")
            launch = partial(stage.launch, raster, state, last_pairs(raster, state), rows)
            replays = time_replay(backend, launch, REPLAYS[backend.name], MAX_SECONDS)
            times[stage.name].append(statistics.median(replays))
    return {
        "splats": splats.num,
        "views": len(views),
        "width": views[0].width,
        "height": views[0].height,
        "work": {f.name: float(np.mean([getattr(w, f.name) for w in work])) for f in dataclasses.fields(Work)},
        "stages": [
            {
                "name": stage.name,
                "ms": float(np.mean(times[stage.name])),
                "difference": worst[stage.name],
                "atomics": 9 * float(np.mean([getattr(w, stage.adds) for w in work])),
                "bytes": float(np.mean([num_bytes(stage, w) for w in work])),
                "source": dataclasses.asdict(stage.source) if stage.source else None,
            }
            for stage in stages
        ],
    }


def _stages(backend: Backend) -> list[Stage]:
    return [stage for stage in STAGES if backend.name == "cuda" or not stage.cuda_only]


def _rasterizer(
    backend: Backend, arrays: SplatArrays, views: list[View], antialias: bool
) -> tuple[Splats, Rasterizer, IterState]:
    splats = Splats.from_arrays(backend, arrays)
    settings = RasterizationSettings(training=True, antialias=antialias)
    raster = Rasterizer(backend, CameraTable(backend, views), splats.capacity, settings)
    return splats, raster, IterState(backend, num_splats=splats.num, sh_degree=splats.sh_degree)


def _render(raster: Rasterizer, splats: Splats, state: IterState, index: int) -> None:
    """Forward pass of a view, and a gradient of its picture like that of an L1 loss."""
    state.write(view=index)
    overflowed = True
    while overflowed:
        state.clear_counts()
        raster.forward(splats, state)
        overflowed = raster.grow_if_overflowed(state)
    d_image = raster.rendered.d_image
    assert d_image is not None
    signs = np.random.default_rng(index).choice(np.array([-1, 1], np.float32), d_image.size)
    d_image[...] = raster.backend.upload(signs / d_image.size)


def _gradients(raster: Rasterizer, state: IterState, stage: Stage) -> np.ndarray:
    """float64 [visible splats, 9]"""
    download, projection = raster.backend.download, raster.projection
    rows = raster.backend.xp.zeros((len(projection.depths), stage.columns), "float32")
    stage.launch(raster, state, last_pairs(raster, state), rows)
    visible = download(projection.depths) > 0
    shapes = download(projection.conic_opacity)[visible].astype(np.float64)
    return gradients(stage, download(rows)[visible], shapes[:, :3], shapes[:, 3])


def stage_table(result: dict[str, Any], bandwidth: float) -> str:
    """Markdown: a row per stage, published figures in the last columns. bandwidth: of a copy, GB/s."""
    work, stages = result["work"], result["stages"]
    lines = [
        f"{result['splats']:,} splats, {result['width']}x{result['height']}, {result['views']} views; a view has "
        f"{work['pairs']:,.0f} pairs of a splat and a tile, {work['hits'] / work['pixels']:.1f} splats per pixel",
        "",
        "| stage | ms | x | atomics, M | GB/s by count | of a copy's | from ours | source, ms | x | GB/s | SMs, % |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in stages:
        rate = row["bytes"] / row["ms"] / 1e6
        source, original = row["source"], stages[0]["source"]
        theirs = "| | |"
        if source:
            faster = original["ms"] / source["ms"]
            theirs = f"{source['ms']} | {faster:.1f} | {source['gb_per_s']} | {source['sm_percent']}"
        lines.append(
            f"| {row['name']} | {row['ms']:.3f} | {stages[0]['ms'] / row['ms']:.1f} | {row['atomics'] / 1e6:.2f} "
            f"| {rate:.0f} | {rate / bandwidth:.0%} | {row['difference']:.0e} | {theirs} |"
        )
    return "\n".join(lines)
