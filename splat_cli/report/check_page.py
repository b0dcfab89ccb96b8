"""The page of `splat check`: findings, a map of places for more photographs, and the photographs concerned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from splat_cli.io.image_files import open_image
from splat_cli.report.markup import Markup, join, jpeg, tag
from splat_cli.report.page import document, map_from_above, section
from splat_cli.scene.coverage import Place
from splat_cli.scene.view import Scene

_NUM_PICTURES = 8  # of a finding
_SIDE, _MAX_BYTES = 320, 30_000
_WEIGHT = 0.7  # of a point on the map


class Row(Protocol):
    """A finding. ok: nothing to do; photographs: names; is_known: whether it could be checked."""

    @property
    def topic(self) -> str: ...
    @property
    def ok(self) -> bool: ...
    @property
    def text(self) -> str: ...
    @property
    def photographs(self) -> tuple[str, ...]: ...
    @property
    def is_known(self) -> bool: ...


def check_page(
    name: str,
    findings: Sequence[Row],
    duration: str,
    files: Mapping[str, Path],
    scene: Scene | None,
    places: Sequence[Place],
) -> str:
    """The HTML document, without external resources. files: name of a photograph -> its file."""
    num = sum(not one.ok for one in findings)
    look = f"badge {'bad' if num else 'good'}"
    badge = tag("span", f"{num} problem{'s' * (num != 1)}" if num else "no problem", class_=look)
    body = join(
        tag("header", tag("h1", name, " ", badge), tag("p", f"{len(files)} photographs. Expected time: {duration}.")),
        section("Findings", tag("table", *map(_row, findings))),
        _map(scene, places),
        *(section(f"Photographs: {one.topic}", _pictures(one, files)) for one in findings if one.photographs),
    )
    return document(f"{name}: check of photographs", body)


def _row(one: Row) -> Markup:
    word, look = ("problem", " bad") if not one.ok else ("good", " good") if one.is_known else ("unknown", "")
    badge = tag("span", word, class_=f"badge{look}")
    return tag("tr", tag("th", one.topic, style="white-space: nowrap"), tag("td", badge), tag("td", one.text))


def _map(scene: Scene | None, places: Sequence[Place]) -> Markup | None:
    if scene is None:
        return None
    keys = [tag("span", "photographs", class_="key trained")]
    keys += [tag("span", "where more would help most", class_="key held-out")] if places else []
    drawing = map_from_above(
        scene.points,
        scene.colors / 255,
        np.full(len(scene.points), _WEIGHT),
        scene.views,
        frozenset(),
        "points",
        [(place.center, place.direction) for place in places],
    )
    between = [tag("li", f"between {place.between[0]} and {place.between[1]}") for place in places]
    figure = tag("figure", tag("figcaption", *keys), drawing, class_="map")
    wanted = "Photographs from these places would help most:"
    return section("From above", join(figure, *([tag("p", wanted), tag("ol", *between)] if between else [])))


def _pictures(one: Row, files: Mapping[str, Path]) -> Markup:
    figures = []
    for name in [name for name in one.photographs if name in files][:_NUM_PICTURES]:
        with open_image(files[name]) as image:
            image.draft("RGB", (_SIDE, _SIDE))
            address = jpeg(np.asarray(image.convert("RGB")), _SIDE, _MAX_BYTES)
        figures.append(
            tag(
                "figure", tag("figcaption", name), tag("img", src=address, alt=name, style="width: 100%"), class_="view"
            )
        )
    return tag("div", *figures, class_="views")
