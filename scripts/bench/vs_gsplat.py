"""Compares rasterization with gsplat, forward and backward: bench_kernels.py --vs. Needs torch and gsplat."""

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
from splat_cli.render.project import Update
from splat_cli.scene.view import View

WARM_UP = 3  # calls for each view before timing
MAX_REPEATS = 30
MAX_SECONDS = 3.0


def versus(backend: Backend, arrays: SplatArrays, views: list[View], antialias: bool = False) -> dict[str, Any]:
    """Milliseconds of the rasterization, ours and gsplat's (packed, its default, and dense), as a row of results.

    Forward alone, and forward and backward with stored gradients of all parameters. antialias: both use
    Mip-Splatting's compensation of opacities and a dilation of 0.1 px^2; otherwise no compensation and 0.3.
    """
    ours, image = our_milliseconds(backend, arrays, views, antialias)
    difference = float(np.abs(image - picture(arrays, views[0], antialias)).mean())
    theirs = {form: milliseconds(arrays, views, antialias, form == "packed") for form in ("packed", "dense")}
    best = {name: min(times[name] for times in theirs.values()) for name in ours}
    ratios = {name: best[name] / ours[name] for name in ours}
    width, height = views[0].width, views[0].height
    print(f"{len(arrays):,} splats, {width}x{height}, antialias {antialias}; mean difference {difference:.1e}")
    for name, ms in ours.items():
        packed, dense = (theirs[form][name] for form in ("packed", "dense"))
        print(
            f"  {name}: ours {ms:.3f} ms, gsplat {dense:.3f} (packed {packed:.3f}): {ratios[name]:.2f} times",
            flush=True,
        )
    return {
        "splats": len(arrays),
        "width": width,
        "height": height,
        "antialias": antialias,
        "ours": ours,
        **theirs,
        "ratio": ratios,
        "mean_difference": difference,
    }


def our_milliseconds(
    backend: Backend, arrays: SplatArrays, views: list[View], antialias: bool
) -> tuple[dict[str, float], np.ndarray]:
    """Milliseconds of a view, and the picture of the first view, float32 [H, W, 3]."""
    bench = make_bench(backend, arrays, views, antialias)
    raster, passes = bench.raster, dict(bench.passes)
    bench.state.clear_counts()
    bench.state.write(view=0, overflowed=0)
    raster.forward(bench.splats, bench.state)
    image = np.moveaxis(backend.download(raster.image(0)), 0, -1)
    update = Update(d_params=backend.xp.zeros_like(bench.splats.params))
    d_image = raster.rendered.d_image
    assert d_image is not None  # make_bench allocates for training
    d_image[...] = backend.xp.random.default_rng(0).random(d_image.shape) - 0.5
    forward: list[Callable[[], None]] = [passes[name] for name in ("begin_step", "project", "tiles", "blend")]
    geometry = partial(raster.update, bench.splats, bench.state, update)
    both: list[Callable[[], None]] = [*forward, passes["blend_backward"], geometry]
    times = {
        name: statistics.median(time_replay(backend, partial(run_all, steps), len(views)))
        for name, steps in (("forward", forward), ("forward and backward", both))
    }
    return times, image


def parameters(arrays: SplatArrays) -> dict[str, torch.Tensor]:
    """Inputs of gsplat.rasterization, after activations, as leaf tensors with gradients."""
    colors = np.concatenate([arrays.sh0[:, None], arrays.shN], axis=1)
    values = {
        "means": arrays.means,
        "quats": arrays.quats,
        "scales": np.exp(arrays.log_scales),
        "opacities": 1 / (1 + np.exp(-arrays.logit_opacities)),
        "colors": colors,
    }
    return {name: torch.tensor(value, device="cuda").requires_grad_() for name, value in values.items()}


def camera(view: View) -> dict[str, Any]:
    K = [[view.fx, 0, view.cx], [0, view.fy, view.cy], [0, 0, 1]]
    return {
        "viewmats": torch.tensor(view.w2c[None], dtype=torch.float32, device="cuda"),
        "Ks": torch.tensor([K], dtype=torch.float32, device="cuda"),
        "width": view.width,
        "height": view.height,
    }


def options(antialias: bool) -> dict[str, Any]:
    """Arguments of gsplat.rasterization for the same result as ours."""
    mode = {"rasterize_mode": "antialiased", "eps2d": 0.1} if antialias else {"rasterize_mode": "classic", "eps2d": 0.3}
    return {"sh_degree": 3, "near_plane": 0.001, **mode}


def picture(arrays: SplatArrays, view: View, antialias: bool) -> np.ndarray:
    """The picture of gsplat, float32 [H, W, 3], on black."""
    with torch.no_grad():
        image = gsplat.rasterization(**parameters(arrays), **camera(view), **options(antialias))[0]
    return image[0].cpu().numpy()


def milliseconds(arrays: SplatArrays, views: list[View], antialias: bool, packed: bool) -> dict[str, float]:
    """Median milliseconds per view of the forward pass and of both passes, over groups of all views, by device
    events."""
    leaves, cameras = parameters(arrays), [camera(view) for view in views]
    d_images = [torch.rand((1, view.height, view.width, 3), device="cuda") - 0.5 for view in views]

    def group(backward: bool) -> None:
        for one, d_image in zip(cameras, d_images, strict=True):
            image = gsplat.rasterization(**leaves, **one, **options(antialias), packed=packed)[0]
            if backward:
                image.backward(d_image)
                for leaf in leaves.values():
                    leaf.grad = None

    times = {}
    for name, backward in (("forward", False), ("forward and backward", True)):
        for _ in range(WARM_UP):
            group(backward)
        times[name] = statistics.median(_timed(partial(group, backward))) / len(views)
    return times


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
