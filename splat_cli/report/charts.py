"""Charts as SVG (the page styles them and adds tooltips), and those of a run: curves, scores, distributions."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from splat_cli.device import ceil_div
from splat_cli.gaussians.arrays import SplatArrays, opacities
from splat_cli.report.markup import Markup, compact, join, tag, ticks
from splat_cli.report.run_data import RunData

_WIDTH, _HEIGHT = 360, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 8, 8, 24
_MAX_POINTS = 300
Format = Callable[[float], str]


@dataclass(frozen=True)
class Series:
    """A curve; `look`: CSS class, "line" or "dots"."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    look: str = "line"

    def finite(self) -> "Series":
        """The curve without non-finite points, subsampled to the resolution of the chart."""
        pairs = [(x, y) for x, y in zip(self.x, self.y, strict=True) if math.isfinite(y)]
        stride = ceil_div(len(pairs), _MAX_POINTS) or 1
        kept = pairs[::-stride][::-1]  # includes the last one
        return Series(self.name, [x for x, _ in kept], [y for _, y in kept], self.look)


@dataclass(frozen=True)
class _Frame:
    """Mapping from data to picture coordinates."""

    x: tuple[float, float]
    y: tuple[float, float]

    def left(self, value: float) -> float:
        return _LEFT + (value - self.x[0]) / (self.x[1] - self.x[0]) * (_WIDTH - _LEFT - _RIGHT)

    def top(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - (value - self.y[0]) / (self.y[1] - self.y[0]) * (_HEIGHT - _TOP - _BOTTOM)


def line_chart(title: str, series: Sequence[Series], show: Format, low: float | None = None) -> Markup | None:
    """Curves over steps; None for fewer than two points. low: lower end of the axis, by default below the data."""
    drawn = [one.finite() for one in series]
    drawn = [one for one in drawn if one.x]
    if not any(len(one.x) > 1 for one in drawn):
        return None
    x = [value for one in drawn for value in one.x]
    y = [value for one in drawn for value in one.y]
    frame = _Frame((min(x), max(max(x), min(x) + 1)), _range(y, low))
    parts = [*_axes(frame, compact, compact), *(_curve(one, frame) for one in drawn)]
    hover = [
        (frame.left(x), f"step {x:,.0f}: {one.name + ' ' * bool(one.name)}{show(y)}")
        for one in drawn
        for x, y in zip(one.x, one.y, strict=True)
    ]
    return _figure(title, show(drawn[-1].y[-1]), parts, hover, drawn if len(drawn) > 1 else ())


def histogram(title: str, values: np.ndarray, show: Format, limits: tuple[float, float], log: bool = False) -> Markup:
    """Distribution of `values` over 40 bins; log: logarithmic axis. limits: range."""
    low, high = (math.log10(limit) for limit in limits) if log else limits
    counts, edges = np.histogram(np.log10(np.maximum(values, 1e-30)) if log else values, 40, (low, high))
    text: Format = (lambda value: show(10**value)) if log else show
    frame = _Frame((low, high), (0, max(int(counts.max()), 1)))
    parts, hover = _axes(frame, text, compact), []
    for count, left, right in zip(counts, edges, edges[1:], strict=False):
        parts.append(_bar(frame, left, right, count))
        hover.append((frame.left((left + right) / 2), f"{text(left)} to {text(right)}: {count:,}"))
    return _figure(title, f"median {show(float(np.median(values)))}", parts, hover)


def bars(title: str, summary: str, values: Sequence[float], names: Sequence[str], show: Format) -> Markup:
    """One bar per value, in the given order; the axis includes 0, so that lengths are proportional."""
    frame = _Frame((0, len(values)), _range([0, *values], min(0, *values)))
    parts = _axes(frame, compact, compact, along=False)
    parts += [_bar(frame, place, place + 0.85, value) for place, value in enumerate(values)]
    hover = [
        (frame.left(place + 0.5), f"{name}: {show(value)}")
        for place, (name, value) in enumerate(zip(names, values, strict=True))
    ]
    return _figure(title, summary, parts, hover)


def _figure(
    title: str, summary: str, parts: Sequence[Markup], hover: Sequence[tuple[float, str]], legend: Sequence[Series] = ()
) -> Markup:
    """The picture with its title; the summary is replaced by the value under the pointer."""
    cursor = tag("line", class_="cursor", y1=_TOP, y2=_HEIGHT - _BOTTOM, x1=-9, x2=-9)
    points = json.dumps([(round(x, 1), text) for x, text in sorted(hover)], separators=(",", ":"))
    label = f"{title}: {summary}"
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    svg = tag("svg", *parts, cursor, viewBox=box, role="img", aria_label=label, data_hover=points)
    keys = [tag("span", one.name, class_=f"key {one.look}") for one in legend]
    head = tag("figcaption", tag("b", title), tag("output", summary), tag("div", *keys) if keys else None)
    return tag("figure", head, svg, class_="chart")


def _axes(frame: _Frame, show_x: Format, show_y: Format, along: bool = True) -> list[Markup]:
    parts = []
    for value in ticks(*frame.y):
        y = round(frame.top(value), 1)
        parts.append(tag("line", class_="grid", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y))
        parts.append(tag("text", show_y(value), x=_LEFT - 5, y=y + 4, text_anchor="end"))
    for value in ticks(*frame.x) if along else ():
        x = round(frame.left(value), 1)
        anchor = "end" if x > _WIDTH - 24 else "middle"
        parts.append(tag("text", show_x(value), x=x, y=_HEIGHT - 7, text_anchor=anchor))
    return parts


def _curve(series: Series, frame: _Frame) -> Markup:
    places = [(round(frame.left(x), 1), round(frame.top(y), 1)) for x, y in zip(series.x, series.y, strict=True)]
    if series.look == "dots":
        return tag("g", *(tag("circle", cx=x, cy=y, r=3.5) for x, y in places), class_="dots")
    return tag("polyline", class_=series.look, points=" ".join(f"{x},{y}" for x, y in places))


def _bar(frame: _Frame, left: float, right: float, value: float) -> Markup:
    x, top, bottom = frame.left(left), frame.top(value), _HEIGHT - _BOTTOM
    width = max(frame.left(right) - x - 0.5, 0.5)
    return tag("rect", x=round(x, 1), y=round(top, 1), width=round(width, 1), height=round(bottom - top, 1))


def _range(values: Sequence[float], low: float | None) -> tuple[float, float]:
    """Range of the values, with a margin."""
    bottom, top = min(values), max(values)
    margin = 0.06 * (top - bottom) or 0.05 * abs(top) or 1.0
    return (bottom - margin if low is None else low), top + margin


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
