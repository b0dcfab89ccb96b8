"""Comparison of render and photograph with a slider, and error map."""

from collections.abc import Sequence

import numpy as np

from splat_cli.eval.error_map import COLORS, FULL_ERROR
from splat_cli.report.markup import Markup, tag
from splat_cli.report.views import ComparedView


def comparison(views: Sequence[ComparedView]) -> Markup | None:
    """A figure per view; the page's script implements slider and error map."""
    if not views:
        return None
    return tag("div", *map(_figure, views), class_="views")


def _figure(view: ComparedView) -> Markup:
    score = view.score
    looks = "" if score.flip is None else f" · FLIP {score.flip:.3f}"
    caption = tag(
        "figcaption", tag("b", view.view.name), _badge(view), tag("br"),
        tag("small", f"PSNR {score.psnr:.2f} dB · SSIM {score.ssim:.4f}{looks}"),
    )  # fmt: skip
    stage = tag(
        "div",
        _picture(view, view.render, "render"),
        _picture(view, view.photograph, "photograph"),
        _picture(view, view.error, "error map"),
        tag("span", "render", class_="left"),
        tag("span", "photograph", class_="right"),
        tag("input", type="range", min=0, max=100, step="any", value=50, aria_label="render or photograph"),
        class_="stage",
        style=f"--aspect: {view.view.width / view.view.height:.4f}",
    )
    switch = tag("label", tag("input", type="checkbox"), " error map", class_="switch")
    return tag("figure", caption, stage, tag("div", switch, _legend(), class_="under"), class_="view")


def _picture(view: ComparedView, address: str, what: str) -> Markup:
    return tag(
        "img", src=address, class_=what.split()[0], alt=f"{what} of {view.view.name}",
        width=view.view.width, height=view.view.height, decoding="async",
    )  # fmt: skip


def _badge(view: ComparedView) -> Markup | None:
    if view.num_ranked < 2:
        return None
    if view.rank == 1:
        return tag("span", "worst", class_="badge bad")
    if view.rank == view.num_ranked:
        return tag("span", "best", class_="badge good")
    return tag("span", f"{view.rank} of {view.num_ranked}", class_="badge")


def _legend() -> Markup:
    colors = ", ".join(f"rgb{tuple(int(channel) for channel in color)}" for color in np.asarray(COLORS))
    bar = tag("i", style=f"background: linear-gradient(to right, {colors})")
    return tag("span", "0", bar, f"{round(255 * FULL_ERROR)} of 255", class_="legend")
