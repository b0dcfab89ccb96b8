"""Draw times of `bench_kernels.py stages`, relative to the original, as bars next to the published times:

python scripts/figures/draw_stages.py stages.json > docs/images/stages.svg
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from splat_cli.report.markup import Markup, tag

LABELS, BARS, VALUES = 190, 420, 90  # widths, px
BAR, GAP, HEAD = 13, 10, 46  # height of a bar, space between stages, height of title and legend
COLORS = ("#94a3b8", "#6366f1", "#f59e0b", "#10b981", "#ef4444")
STYLE = "text{font:13px sans-serif;fill:#1f2937}.title{font-weight:bold}.end{text-anchor:end}"
Column = tuple[str, list[float | None]]  # a legend, and milliseconds of each stage


def columns(results: dict[str, Any]) -> tuple[list[str], list[Column]]:
    """Names of the stages, and times of the source and of each run; None for missing stages."""
    runs = results["runs"]
    stages = runs[0]["stages"]
    source = [stage["source"] and stage["source"]["ms"] for stage in stages]
    found: list[Column] = [("source, RTX 4090", source)]
    found += [(f"{run['run']}, {results['device'].split(',')[0]}", [s["ms"] for s in run["stages"]]) for run in runs]
    return [stage["name"] for stage in stages], found


def stages_svg(results: dict[str, Any]) -> str:
    """The chart of a JSON file's content."""
    names, found = columns(results)
    most = max(ms / times[0] for _, times in found for ms in times if ms and times[0])
    step = len(found) * BAR + GAP
    parts: list[Markup] = [
        tag("text", "Backward pass of the blend: time, the original's = 1", class_="title", x=8, y=18)
    ]
    for k, (legend, _) in enumerate(found):
        x = 8 + k * (LABELS + BARS + VALUES) // len(found)
        parts += [tag("rect", x=x, y=27, width=11, height=11, fill=COLORS[k % len(COLORS)])]
        parts += [tag("text", legend, x=x + 16, y=37)]
    for row, name in enumerate(names):
        top = HEAD + row * step + GAP
        parts.append(tag("text", name, class_="end", x=LABELS - 8, y=top + step / 2))
        parts += _bars([times for _, times in found], row, top, most)
    width, height = LABELS + BARS + VALUES, HEAD + len(names) * step + 2 * GAP
    paper = tag("rect", width="100%", height="100%", fill="white")
    box = f"0 0 {width} {height}"
    svg = tag(
        "svg",
        tag("style", STYLE),
        paper,
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=box,
        width=width,
        height=height,
    )
    return svg + "\n"


def _bars(times: Sequence[list[float | None]], row: int, top: float, most: float) -> list[Markup]:
    """The bars of one stage, one per column. most: the longest bar's value."""
    parts = []
    for k, column in enumerate(times):
        ms, original = column[row], column[0]
        if ms and original:
            length, y = BARS * ms / original / most, top + k * BAR
            fill = COLORS[k % len(COLORS)]
            parts.append(tag("rect", x=LABELS, y=y, width=round(length, 1), height=BAR - 2, fill=fill))
            parts.append(tag("text", f"{ms:.3g} ms", x=round(LABELS + length + 5, 1), y=y + BAR - 3))
    return parts


@click.command(help=__doc__)
@click.argument("file", type=Path)
def main(file: Path) -> None:
    click.echo(stages_svg(json.loads(file.read_text())), nl=False)


if __name__ == "__main__":
    main()
