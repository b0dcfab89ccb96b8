"""The rasterization of gsplat, forward and backward, beside ours: bench_kernels.py --vs. Needs torch and gsplat."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gsplat
import numpy as np
import torch
from step_passes import make_bench, run_all, time_replay

from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.render.project import Update, project_backward
from splat_cli.scene.view import View

WARM_UP = 3  # calls for each view before any is timed
MAX_REPEATS = 30
MAX_SECONDS = 3.0


def versus(backend: Backend, arrays: SplatArrays, views: list[View]) -> dict[str, Any]:
    """Forward and backward of the rasterization, ours and gsplat's (the faster of its packed and dense forms)."""
    bench = make_bench(backend, arrays, views, plain=False)
    raster, passes = bench.raster, dict(bench.passes)
    bench.state.clear_counts()
    bench.state.write(view=0, overflowed=0)
    raster.forward(bench.splats, bench.state)
    ours = np.moveaxis(backend.download(raster.image(0)), 0, -1)
    difference = float(np.abs(ours - picture(arrays, views[0])).mean())
    update = Update(d_params=backend.xp.zeros_like(bench.splats.params))
    steps = [passes[name] for name in ("begin_step", "project", "tiles", "blend", "blend_backward")]
    d_image = raster.picture.d_image
    assert d_image is not None  # make_bench allocates for training
    d_image[...] = backend.xp.random.default_rng(0).random(d_image.shape) - 0.5
    geometry = (bench.splats, raster.cameras, bench.state, False, raster.projection, update)
    steps.append(partial(project_backward, *geometry))
    own = statistics.median(time_replay(backend, partial(run_all, steps), len(views)))
    theirs = {form: milliseconds(arrays, views, form == "packed") for form in ("packed", "dense")}
    row = {"ours": own, **theirs, "ratio": min(theirs.values()) / own, "mean_difference": difference}
    print(f"{len(arrays)} splats {views[0].width}x{views[0].height}: {row}", flush=True)
    return {"splats": len(arrays), "width": views[0].width, "height": views[0].height, **row}


def parameters(arrays: SplatArrays) -> dict[str, torch.Tensor]:
    """What gsplat.rasterization takes, activated, as leaves that want gradients."""
    colors = np.concatenate([arrays.sh0[:, None], arrays.shN], axis=1)
    values = {
        "means": arrays.means, "quats": arrays.quats, "scales": np.exp(arrays.log_scales),
        "opacities": 1 / (1 + np.exp(-arrays.logit_opacities)), "colors": colors,
    }  # fmt: skip
    return {name: torch.tensor(value, device="cuda").requires_grad_() for name, value in values.items()}


def camera(view: View) -> dict[str, Any]:
    K = [[view.fx, 0, view.cx], [0, view.fy, view.cy], [0, 0, 1]]
    return {
        "viewmats": torch.tensor(view.w2c[None], dtype=torch.float32, device="cuda"),
        "Ks": torch.tensor([K], dtype=torch.float32, device="cuda"), "width": view.width, "height": view.height,
    }  # fmt: skip


def picture(arrays: SplatArrays, view: View) -> np.ndarray:
    """float32 [H, W, 3] on black."""
    with torch.no_grad():
        image = gsplat.rasterization(**parameters(arrays), **camera(view), sh_degree=3)[0]
    return image[0].cpu().numpy()


def milliseconds(arrays: SplatArrays, views: list[View], packed: bool) -> float:
    """Median over groups of all views of one view's forward and backward pass, by device events."""
    leaves, cameras = parameters(arrays), [camera(view) for view in views]
    d_image = torch.rand((1, views[0].height, views[0].width, 3), device="cuda") - 0.5

    def group() -> None:
        for one in cameras:
            image = gsplat.rasterization(**leaves, **one, sh_degree=3, packed=packed)[0]
            image.backward(d_image)
            for leaf in leaves.values():
                leaf.grad = None

    for _ in range(WARM_UP):
        group()
    return statistics.median(_timed(group)) / len(views)


def _timed(function: Callable[[], None]) -> list[float]:
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 3 or (len(times) < MAX_REPEATS and time.perf_counter() - begin < MAX_SECONDS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return times
