"""Means of the runs in docs/experiments/default_runs.md, as first table and chart of docs/quality.md:

python scripts/figures/draw_quality.py table
python scripts/figures/draw_quality.py chart > docs/images/quality.svg
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from splat_cli.report.markup import Markup, tag

PAGE = Path(__file__).parents[2] / "docs" / "quality.md"
RUNS = PAGE.parent / "experiments" / "default_runs.md"
_WIDTH, _PANEL_WIDTH, _PANEL_HEIGHT, _TOP = 760, 380, 210, 34
_LEFT, _RIGHT, _ABOVE, _BELOW = 48, 18, 26, 30  # margins of a panel, px
_SECONDS = (1, 3, 10, 30, 100, 300)  # ticks of the logarithmic axis
_STYLE = (
    "text{font:13px sans-serif;fill:#1f2937}.title{font-weight:bold}"
    ".tick{fill:#64748b;font-size:11px;text-anchor:middle}.name{text-anchor:middle}.grid{stroke:#e2e8f0}"
    ".splat{fill:#4f46e5}.line{stroke:#4f46e5;stroke-width:2;fill:none}.other{fill:#94a3b8}"
)


@dataclass(frozen=True)
class Result:
    """PSNR in dB, mean over seeds, and seconds of trials and training, None if not measured."""

    psnr: float
    seconds: float | None


@dataclass(frozen=True)
class Row:
    """A scene's results: ours from the shortest to the default run, and those of other programs by name."""

    scene: str
    splat: list[Result]
    others: dict[str, Result]


def rows(page: str) -> list[Row]:
    """The scenes of a page's table of runs, with means over seeds.

    Columns: scene, our runs by increasing length, splats, other programs.
    """
    head, _, *lines = page.split("\n\n| scene (", 1)[1].split("\n\n", 1)[0].split("\n")
    names = _cells(head)
    split = names.index("splats")
    return [_row(names[split + 1 :], split, _cells(line)) for line in lines]


def first_table(table: list[Row]) -> str:
    """The default runs and those of other programs as a table in Markdown."""
    programs = list(table[0].others)
    lines = [f"| scene | splat | {' | '.join(programs)} |", "| --- " * (2 + len(programs)) + "|"]
    for row in table:
        others = "".join(f" {_shown(row.others.get(name))} |".replace("  |", " |") for name in programs)
        lines.append(f"| {row.scene} | **{_shown(row.splat[-1])}** |{others}")
    return "\n".join(lines) + "\n"


def quality_svg(table: list[Row]) -> str:
    """PSNR over seconds, one panel for each scene with times of another program."""
    table = [row for row in table if any(other.seconds for other in row.others.values())]
    height = _TOP + _PANEL_HEIGHT * math.ceil(len(table) / 2)
    parts = [
        _text(12, 22, "Held-out PSNR (dB) over seconds of training on one H200: runs of 2,500 steps, 5,000 and default")
    ]
    for place, row in enumerate(table):
        x, y = _PANEL_WIDTH * (place % 2), _TOP + _PANEL_HEIGHT * (place // 2)
        parts.append(tag("g", *_panel(row), transform=f"translate({x} {y})"))
    paper, box = tag("rect", width="100%", height="100%", fill="white"), f"0 0 {_WIDTH} {height}"
    svg = tag(
        "svg",
        tag("style", _STYLE),
        paper,
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=box,
        width=_WIDTH,
        height=height,
    )
    return svg + "\n"


def _row(programs: list[str], split: int, cells: list[str]) -> Row:
    others = {name: found for name, cell in zip(programs, cells[split + 1 :], strict=False) if (found := _result(cell))}
    splat = [found for cell in cells[1:split] if (found := _result(cell))]
    return Row(cells[0].split(",")[0], splat, others)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _result(cell: str) -> Result | None:
    """The result in a cell such as "**30.4, 30.5** / 0.91, 18.4 s"; None if it is empty or has no figures."""
    psnr, seconds = _numbers(cell.split("/")[0]), re.search(r"([\d.]+) s$", cell)
    if "/" not in cell:  # no SSIM: one figure, and seconds
        psnr = psnr[:1]
    return Result(mean(psnr), float(seconds[1]) if seconds else None) if psnr else None


def _numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]


def _shown(result: Result | None) -> str:
    if result is None:
        return ""
    return f"{result.psnr:.2f} dB" + (f", {result.seconds:.0f} s" if result.seconds else "")


def _panel(row: Row) -> list[Markup]:
    """Axes, our curve with its last point named, and points of other programs."""
    timed = {name: other for name, other in row.others.items() if other.seconds}
    values = [result.psnr for result in [*row.splat, *timed.values()]]
    low, high = min(values) - 0.25, max(values) + 0.25
    parts = [_text(_LEFT, 14, row.scene, "title")]
    step = 1 if high - low > 2 else 2  # ticks per dB
    for tick in range(math.ceil(low * step), math.floor(high * step) + 1):
        y = _y(tick / step, low, high)
        parts.append(tag("line", class_="grid", x1=_LEFT, x2=_PANEL_WIDTH - _RIGHT, y1=y, y2=y))
        parts.append(_text(_LEFT - 22, y + 4, f"{tick / step:g}", "tick"))
    for seconds in _SECONDS:
        x = _x(seconds)
        parts.append(tag("line", class_="grid", x1=x, x2=x, y1=_ABOVE, y2=_PANEL_HEIGHT - _BELOW))
        parts.append(_text(x, _PANEL_HEIGHT - _BELOW + 15, f"{seconds} s", "tick"))
    points = [(_x(result.seconds or 1), _y(result.psnr, low, high)) for result in row.splat]
    parts.append(tag("polyline", class_="line", points=" ".join(f"{x},{y}" for x, y in points)))
    parts += [tag("circle", class_="splat", cx=x, cy=y, r=4) for x, y in points]
    parts.append(_text(points[-1][0] + 8, points[-1][1] + 4, f"splat {_shown(row.splat[-1])}"))
    for place, (name, other) in enumerate(timed.items()):  # names alternate below and above
        x, y = _x(other.seconds or 1), _y(other.psnr, low, high)
        parts.append(tag("circle", class_="other", cx=x, cy=y, r=4))
        parts.append(_text(x, y + (18 if place % 2 == 0 else -9), name, "name"))
    return parts


def _x(seconds: float) -> float:
    share = math.log(seconds / _SECONDS[0]) / math.log(_SECONDS[-1] / _SECONDS[0])
    return round(_LEFT + share * (_PANEL_WIDTH - _LEFT - _RIGHT), 1)


def _y(psnr: float, low: float, high: float) -> float:
    return round(_PANEL_HEIGHT - _BELOW - (psnr - low) / (high - low) * (_PANEL_HEIGHT - _ABOVE - _BELOW), 1)


def _text(x: float, y: float, text: str, look: str | None = None) -> Markup:
    return tag("text", text, class_=look, x=x, y=y)


if __name__ == "__main__":
    draw = first_table if sys.argv[1] == "table" else quality_svg
    print(draw(rows(RUNS.read_text())), end="")
