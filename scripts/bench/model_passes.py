"""Times of the passes of a plain step, on a given number of splats: `bench_kernels.py model`."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import numpy as np
from pass_work import visible_splats
from step_passes import Bench, make_bench, run_all, time_replay

from splat_cli.density.operations import split_long_axis
from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.model.model import Model
from splat_cli.scene.view import View


def resampled(backend: Backend, arrays: SplatArrays, num: int, rng: np.random.Generator) -> SplatArrays:
    """`num` splats that look similar: a random subset, or all, split along the longest axis until there are enough."""
    while len(arrays.means) < num:
        count = len(arrays.means)
        model = Model(backend, arrays, 2 * count)
        model.extend(count)
        split_long_axis(model, backend.upload(np.arange(count)), backend.upload(np.arange(count, 2 * count)))
        arrays = model.splats.to_arrays()
    keep = np.sort(rng.permutation(len(arrays.means))[:num])
    return arrays.select(keep)


def scaled(view: View, factor: float) -> View:
    """The view with `factor` times the pixels in each direction."""
    return view.resized(round(view.width * factor), round(view.height * factor))


def run(bench: Bench, num_views: int) -> list[dict[str, Any]]:
    """One row per pass: median milliseconds and their spread (interquartile)."""
    rows, before = [], 0.0
    for k, (name, _) in enumerate(bench.passes):
        prefix = [f for _, f in bench.passes[: k + 1]]
        if name == "project":  # this prefix lacks the next pass, which clears its counts
            prefix.append(lambda: bench.backend.fill(bench.raster.projection.tile_counts, 0))
        times = time_replay(bench.backend, partial(run_all, prefix), num_views)
        median = statistics.median(times)
        spread = float(np.subtract(*np.percentile(times, [75, 25])))
        rows.append({"pass": name, "ms": median - before, "spread": spread})
        before = median
    rows.append({"pass": "step", "ms": before, "spread": spread})
    return rows


def measure(backend: Backend, arrays: SplatArrays, views: list[View]) -> dict[str, Any]:
    """One row of the results: times of the passes, and amount of work."""
    bench = make_bench(backend, arrays, views)
    rows, state = run(bench, len(views)), bench.state.read()
    width, height, pairs = views[0].width, views[0].height, int(state["num_pairs"])
    visible = int(visible_splats(backend, bench.raster.projection, len(arrays)).sum())
    line = "  ".join(f"{row['pass']} {row['ms']:.3f}" for row in rows)
    print(f"{len(arrays)} splats {width}x{height} {pairs} pairs: {line}", flush=True)
    result = {"splats": len(arrays), "width": width, "height": height, "pairs": pairs}
    return {**result, "visible": visible, "rows": rows}
