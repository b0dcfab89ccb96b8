"""Charts of a run: curves over steps, scores of views, distributions of the splats."""

from typing import Any

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.attributes import opacities
from splat_cli.report.charts import Series, bars, histogram, line_chart
from splat_cli.report.markup import Markup, join, tag
from splat_cli.report.numbers import compact
from splat_cli.report.run_data import RunData

_NAMES = {
    "psnr": "PSNR",
    "ssim": "SSIM",
    "flip": "FLIP",
    "lpips": "LPIPS",
    "fitted_psnr": "PSNR, colours fitted",
    "fitted_ssim": "SSIM, colours fitted",
    "pose_fitted_psnr": "PSNR, poses fitted",
    "pose_fitted_ssim": "SSIM, poses fitted",
}


def curves(data: RunData) -> Markup | None:
    """Loss, PSNR, splats, speed and memory over steps."""
    memory, unit = _memory(data)
    charts = [
        line_chart("Loss", [_series(data, "loss")], lambda value: f"{value:.3f}"),
        line_chart("PSNR, dB", [_series(data, "psnr", "training"), _held_out(data)], lambda value: f"{value:.1f} dB"),
        line_chart("Splats", [_series(data, "num_splats")], compact, low=0),
        line_chart("Steps per second", [_series(data, "steps_per_second")], compact, low=0),
        line_chart(f"Memory, {unit}", [memory], lambda value: f"{value:.3g} {unit}", low=0),
    ]
    drawn = [chart for chart in charts if chart]
    return tag("div", *drawn, class_="charts") if drawn else None


def measured_views(data: RunData) -> Markup | None:
    """PSNR of each evaluated view, sorted by name, and a table of all scores."""
    views: dict[str, dict[str, Any]] = data.measured.get("per_image", {})
    if len(views) < 2:
        return None
    psnr = [one["psnr"] for one in views.values()]
    chart = bars(
        "PSNR by view, dB", f"{min(psnr):.1f} to {max(psnr):.1f} dB", psnr, list(views), lambda value: f"{value:.1f} dB"
    )
    measures = list(next(iter(views.values())))
    head = tag("tr", tag("th", "photograph"), *(tag("th", _NAMES.get(name, name)) for name in measures))
    rows = [
        tag("tr", tag("td", name), *(tag("td", f"{one[key]:.{2 if key.endswith('psnr') else 4}f}") for key in measures))
        for name, one in sorted(views.items(), key=lambda item: item[1]["psnr"])
    ]
    table = tag("details", tag("summary", "All scores, worst first"), tag("table", head, *rows, class_="numbers"))
    return join(chart, table)


def distributions(splats: SplatArrays) -> Markup:
    """Histograms of opacity and of the longest and shortest axis of the splats."""
    sizes = np.exp(np.clip(splats.log_scales.astype(np.float64), -60, 60))
    limits = tuple(float(limit) for limit in np.percentile(sizes, (0.1, 99.9)))
    limits = (limits[0], max(limits[1], 1.001 * limits[0]))
    show = lambda value: f"{value:.2g}"  # noqa: E731
    return tag(
        "div",
        histogram("Opacity", opacities(splats), show, (0, 1)),
        histogram("Longest axis", sizes.max(axis=1), show, limits, log=True),
        histogram("Shortest axis", sizes.min(axis=1), show, limits, log=True),
        class_="charts",
    )


def _series(data: RunData, key: str, name: str = "") -> Series:
    lines = [line for line in data.figures if line.get(key) is not None]
    return Series(name, [line["step"] for line in lines], [float(line[key]) for line in lines])


def _memory(data: RunData) -> tuple[Series, str]:
    """The curve with its unit."""
    series = _series(data, "memory_bytes")
    scale, unit = (2**30, "GiB") if max(series.y, default=0) >= 2**30 else (2**20, "MiB")
    return Series("", series.x, [value / scale for value in series.y]), unit


def _held_out(data: RunData) -> Series:
    steps = sorted(data.metrics)
    return Series(data.seen, steps, [data.metrics[step]["psnr"] for step in steps], "dots")
