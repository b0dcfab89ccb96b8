"""The page of `splat compare`: a table of runs, and their renders of the same views under one slider."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from splat_cli.eval.metrics import Score
from splat_cli.report.markup import Markup, duration, join, tag
from splat_cli.report.page import document
from splat_cli.scene.view import View


@dataclass(frozen=True)
class ComparedPicture:
    """A held-out view: its photograph and each run's render as data URLs, and each run's score."""

    view: View
    photograph: str
    renders: list[str]
    scores: list[Score]


class Row(Protocol):
    """A run in the table. seconds: training time, None if it is not finished."""

    @property
    def name(self) -> str: ...
    @property
    def mean(self) -> Score: ...
    @property
    def num_splats(self) -> int: ...
    @property
    def seconds(self) -> float | None: ...


def comparison_page(runs: Sequence[Row], pictures: Sequence[ComparedPicture]) -> str:
    """The HTML document, without external resources."""
    names = [run.name for run in runs]
    note = "Held-out views, those on which the runs differ most first. Drag across a picture to compare."
    body = join(
        tag("header", tag("h1", " · ".join(names))),
        _verdict(runs),
        _table(runs),
        tag("section", tag("h2", "Renders"), tag("p", note, class_="note"), _choice(names)),
        tag("div", *(_figure(picture, names) for picture in pictures), class_="views"),
    )
    return document(f"Comparison of runs: {', '.join(names)}", body)


def _verdict(runs: Sequence[Row]) -> Markup:
    """Which run is best by PSNR, and by how much."""
    first, second = sorted(runs, key=lambda run: -run.mean.psnr)[:2]
    lead = f"{first.mean.psnr - second.mean.psnr:.2f}"
    if float(lead) == 0:
        return tag("p", f"{first.name} and {second.name} have the same PSNR.")
    return tag("p", tag("b", first.name), f" is closest to the photographs: its PSNR is {lead} dB above {second.name}.")


_Choose = Callable[[list[float]], float]
_MEASURES: tuple[tuple[str, str, str, _Choose], ...] = (
    ("psnr", "PSNR", "{:.2f} dB", max),
    ("ssim", "SSIM", "{:.4f}", max),
    ("flip", "FLIP", "{:.4f}", min),
    ("lpips", "LPIPS", "{:.4f}", min),
)
"""(name in Score, title, format, which value is best)"""


def _table(runs: Sequence[Row]) -> Markup:
    measures = [one for one in _MEASURES if all(getattr(run.mean, one[0]) is not None for run in runs)]
    scores = {name: [getattr(run.mean, name) for run in runs] for name, *_ in measures}
    best = {name: choose(scores[name]) for name, _, _, choose in measures if len(set(scores[name])) > 1}
    rows = []
    for run in runs:
        cells: list[object] = []
        for name, _, form, _ in measures:
            value = getattr(run.mean, name)
            text = form.format(value)
            cells.append(tag("b", text) if value == best.get(name) else text)
        cells += [f"{run.num_splats:,}", "not finished" if run.seconds is None else duration(run.seconds)]
        rows.append(tag("tr", tag("th", run.name), *(tag("td", cell) for cell in cells)))
    titles = ["run", *(title for _, title, _, _ in measures), "splats", "training"]
    head = tag("tr", *(tag("th", title) for title in titles))
    low = [title for _, title, _, choose in measures if choose is min]
    note = "Means over photographs that no run was trained on. High PSNR and SSIM are good"
    note += f"; low {' and '.join(low)} {'is' if len(low) == 1 else 'are'} good." if low else "."
    table = tag("div", tag("table", head, *rows, class_="numbers"), class_="chart wide")
    return join(table, tag("p", note, class_="note"))


def _choice(names: Sequence[str]) -> Markup:
    """Menus that select both sides of all pictures; number 0 is the photograph."""
    sides = []
    for side, chosen in (("left", 1), ("right", 2)):
        options = [
            tag("option", name, value=number, selected="" if number == chosen else None)
            for number, name in enumerate(["photograph", *names])
        ]
        sides.append(tag("label", f"{side} ", tag("select", *options, data_side=side)))
    return tag("p", sides[0], " ", sides[1], class_="choice")


def _figure(picture: ComparedPicture, names: Sequence[str]) -> Markup:
    view = picture.view
    scores = [f"{name} {score.psnr:.2f} dB" for name, score in zip(names, picture.scores, strict=True)]
    look = {1: "left-side", 2: "right-side"}
    images = [
        tag("img", src=address, class_=look.get(number), alt=f"{what} of {view.name}", decoding="async",
            width=view.width, height=view.height)
        for number, (what, address) in enumerate(
            zip(["photograph", *names], [picture.photograph, *picture.renders], strict=True)
        )
    ]  # fmt: skip
    stage = tag(
        "div",
        *images,
        tag("span", names[0], class_="left"),
        tag("span", names[1], class_="right"),
        tag("input", type="range", min=0, max=100, step="any", value=50, aria_label="left or right"),
        class_="stage compared",
        style=f"--aspect: {view.width / view.height:.4f}",
    )
    caption = tag("figcaption", tag("b", view.name), tag("br"), tag("small", " · ".join(scores)))
    return tag("figure", caption, stage, class_="view")
