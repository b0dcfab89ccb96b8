"""Means of the runs in docs/experiments/default_runs.md, as first table and chart of docs/quality.md:

python scripts/figures/draw_quality.py table
python scripts/figures/draw_quality.py chart > docs/images/quality.svg
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from splat_cli.report.markup import Markup, tag

PAGE = Path(__file__).parents[2] / "docs" / "quality.md"
RUNS = PAGE.parent / "experiments" / "default_runs.md"
_LEFT, _RIGHT, _TOP, _ROW, _BAR, _WIDTH = 140, 200, 44, 46, 15, 760
_STYLE = (
    "text{font:14px sans-serif;fill:#1f2937}.seconds{fill:#64748b}.splat{fill:#4f46e5}.gsplat{fill:#94a3b8}"
    ".zero{stroke:#1f2937;stroke-width:1.5}.grid{stroke:#e2e8f0}.tick{text-anchor:middle;fill:#64748b}"
)


@dataclass(frozen=True)
class Row:
    """A scene's PSNR in dB and seconds of training; None if the table has no value."""

    scene: str
    splat: float
    splat_seconds: float
    fastgs: float
    fastgs_seconds: float | None
    gsplat: float | None
    gsplat_seconds: float | None


def rows(page: str) -> list[Row]:
    """The scenes of a page's table of runs, with means over seeds."""
    lines = page.split("\n\n| scene (", 1)[1].split("\n\n", 1)[0].split("\n")[2:]
    cells = [line.strip("| ").split(" | ") for line in lines]
    return [_row(*[cell.strip() for cell in [*line, ""][:6]]) for line in cells]


def first_table(table: list[Row]) -> str:
    """The scenes as a table in Markdown."""
    lines = ["| scene | splat | FastGS | gsplat |", "| --- | --- | --- | --- |"]
    for row in table:
        ours, fastgs = _cell(row.splat, row.splat_seconds), _cell(row.fastgs, row.fastgs_seconds)
        lines.append(f"| {row.scene} | **{ours}** | {fastgs} | {_cell(row.gsplat, row.gsplat_seconds)}".rstrip() + " |")
    return "\n".join(lines) + "\n"


def quality_svg(table: list[Row]) -> str:
    """Bars of the difference in PSNR from FastGS, one group per scene."""
    height = _TOP + _ROW * len(table) + 28
    ticks = [-0.5, 0.5, 1.0, 1.5, 0.0]  # draws the line at zero on top
    parts = [_text(12, 22, "Held-out PSNR above FastGS, and seconds of training on one H200")]
    for tick in ticks:
        x = _x(tick)
        parts.append(tag("line", class_="grid" if tick else "zero", x1=x, x2=x, y1=_TOP - 6, y2=height - 24))
        parts.append(_text(x, height - 8, f"{tick:+.1f} dB" if tick else "FastGS", "tick"))
    parts += [part for place, row in enumerate(table) for part in _bars(row, _TOP + place * _ROW)]
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


def _row(scene: str, splat: str, seconds: str, _splats: str, fastgs: str, gsplat: str) -> Row:
    return Row(
        scene.split(",")[0],
        _psnr(splat),
        mean(_numbers(seconds.split("(")[0])),
        _psnr(fastgs),
        _seconds(fastgs),
        _psnr(gsplat) if gsplat else None,
        _seconds(gsplat),
    )


def _cell(psnr: float | None, seconds: float | None) -> str:
    return ("" if psnr is None else f"{psnr:.2f} dB") + (f", {seconds:.0f} s" if seconds else "")


def _numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]


def _psnr(cell: str) -> float:
    """The mean of the figures before the slash; SSIM follows it."""
    return mean(_numbers(cell.split("/")[0]))


def _seconds(cell: str) -> float | None:
    found = re.search(r"([\d.]+) s$", cell)
    return float(found[1]) if found else None


def _x(decibels: float) -> float:
    """Position of a difference, pixels from the left; the axis goes from -0.5 to 1.6 dB."""
    return round(_LEFT + (decibels + 0.5) / 2.1 * (_WIDTH - _LEFT - _RIGHT), 1)


def _bars(row: Row, top: int) -> list[Markup]:
    parts = [_text(12, top + 13, row.scene)]
    if row.fastgs_seconds:
        parts.append(_text(12, top + 30, f"FastGS: {row.fastgs_seconds:.0f} s", "seconds"))
    for name, psnr, seconds in (("splat", row.splat, row.splat_seconds), ("gsplat", row.gsplat, row.gsplat_seconds)):
        if psnr is None:
            continue
        gain = psnr - row.fastgs
        left, right = sorted((_x(0), _x(gain)))
        parts.append(tag("rect", class_=name, x=left, y=top, width=round(right - left, 1), height=_BAR))
        parts.append(_text(right + 6, top + 12, f"{name} {gain:+.2f} dB" + (f", {seconds:.0f} s" if seconds else "")))
        top += _BAR + 3
    return parts


def _text(x: float, y: float, text: str, look: str | None = None) -> Markup:
    return tag("text", text, class_=look, x=x, y=y)


if __name__ == "__main__":
    draw = first_table if sys.argv[1] == "table" else quality_svg
    print(draw(rows(RUNS.read_text())), end="")
