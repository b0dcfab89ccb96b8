"""The page of `splat compare`: a table of runs, and their renders of the same views under one slider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from splat_cli.eval.metrics import Score
from splat_cli.report.markup import Markup, join, tag
from splat_cli.report.numbers import duration
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
        _table(runs),
        tag("section", tag("h2", "Renders"), tag("p", note, class_="note"), _choice(names)),
        tag("div", *(_figure(picture, names) for picture in pictures), class_="views"),
    )
    return document(f"Comparison of runs: {', '.join(names)}", body)


def _table(runs: Sequence[Row]) -> Markup:
    with_flip = all(run.mean.flip is not None for run in runs)
    with_lpips = all(run.mean.lpips is not None for run in runs)
    titles = ["run", "PSNR", "SSIM", *(["FLIP"] * with_flip), *(["LPIPS"] * with_lpips), "splats", "training"]
    best = max(run.mean.psnr for run in runs)
    rows = []
    for run in runs:
        psnr = f"{run.mean.psnr:.2f} dB"
        cells: list[object] = [tag("b", psnr) if run.mean.psnr == best else psnr, f"{run.mean.ssim:.4f}"]
        cells += [f"{run.mean.flip:.4f}"] if with_flip else []
        cells += [f"{run.mean.lpips:.4f}"] if with_lpips else []
        cells += [f"{run.num_splats:,}", "not finished" if run.seconds is None else duration(run.seconds)]
        rows.append(tag("tr", tag("th", run.name), *(tag("td", cell) for cell in cells)))
    head = tag("tr", *(tag("th", title) for title in titles))
    return tag("div", tag("table", head, *rows, class_="numbers"), class_="chart wide")


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
