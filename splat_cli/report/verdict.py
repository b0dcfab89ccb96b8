"""The report in words: how good the run is, where it fails, what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from splat_cli.report.markup import Markup, join, prose, tag
from splat_cli.report.run_data import RunData

_GRADES = (
    (30.0, "very good: hard to tell from photographs"),
    (26.0, "good: only fine detail is lost"),
    (22.0, "fair: shapes are right, textures blur"),
    (18.0, "poor: much is blurred or in the wrong place"),
    (-np.inf, "bad: photographs and splats hardly agree"),
)
"""PSNR in dB -> what people see, for views that were held out."""
_FAR_BEHIND = 4.0  # dB below the median: views that fail
_OVERFIT = 4.0  # dB between photographs trained on and held-out ones
_HIDDEN = 0.05  # share of points behind floaters
_UNEVEN = 1.0  # dB that fitted colours gain
_NUM_NAMED = 3  # worst views


def verdict(data: RunData, stops: Mapping[str, int]) -> Markup:
    """Three lists. stops: name of a view -> its number in the scene in 3D, for links."""
    views = list(_failing_views(data, stops))
    failures = [*views, *_failing_everywhere(data)]
    lists = {
        "How good it is": list(_grade(data)),
        "Where it fails": [*([] if views else _even(data, stops)), *(failure for failure, _ in failures)],
        "What to do next": list(_next(data, [step for _, step in failures])),
    }
    parts = [
        join(tag("h2", title), tag("ul", *(tag("li", line) for line in lines)))
        for title, lines in lists.items()
        if lines
    ]
    return tag("section", *parts, class_="verdict")


def _grade(data: RunData) -> Iterator[Markup]:
    """What the mean score means."""
    measured, training = data.measured, _training_psnr(data)
    if measured:
        psnr, num = measured["psnr"], len(measured.get("per_image", {}))
        grade = next(words for low, words in _GRADES if psnr >= low)
        views = f"{num} photographs" if num != 1 else "a photograph"
        yield join(tag("b", f"PSNR {psnr:.1f} dB"), f" over {views}, {data.seen}: ", tag("b", grade), ".")
    elif training is not None:
        yield prose(f"Photographs that it was trained on have a PSNR of {training:.1f} dB.")
    if measured and data.config.eval:
        yield prose(
            "PSNR compares renders with photographs that training has not seen. Renders of 30 dB and more are hard to "
            "tell from photographs; at 25 dB, fine detail blurs; under 20 dB, shapes are wrong. Outdoors, where leaves "
            "and people move, 20 to 25 dB are usual."
        )
    else:
        yield prose("New views look worse than photographs that it was trained on; how much worse was not measured.")


def _failing_views(data: RunData, stops: Mapping[str, int]) -> Iterator[tuple[Markup, Markup]]:
    """(what is wrong, what to do) if some views are much worse than the others."""
    scores = _scores(data)
    median = float(np.median([score for _, score in scores])) if scores else 0.0
    behind = [(name, score) for name, score in scores if score < median - _FAR_BEHIND]
    if behind:
        more = f" and {len(behind) - _NUM_NAMED} more" if len(behind) > _NUM_NAMED else ""
        which = "view is" if len(behind) == 1 else "views are"
        yield (
            join(
                f"{len(behind)} of {len(scores)} {which} over {_FAR_BEHIND:g} dB worse than the median of "
                f"{median:.1f} dB: ",
                _links(behind[:_NUM_NAMED], stops),
                f"{more}.",
            ),
            prose(
                "Go to the worst views and compare them with their photographs by the slider. Is a photograph shifted "
                "against the splats? Then its pose is wrong: train with `--pose-opt`. Is it blurred, or did something "
                "move? Leave it out, or train with `--robust`. Are the splats smeared? Take more photographs of that "
                "place."
            ),
        )


def _failing_everywhere(data: RunData) -> Iterator[tuple[Markup, Markup]]:
    """(what is wrong, what to do) for the whole scene."""
    measured, training = data.measured, _training_psnr(data)
    if (hidden := measured.get("hidden_points", 0)) >= _HIDDEN:
        yield (
            prose(f"There are floaters: splats in empty space hide {hidden:.0%} of the points behind them."),
            prose(
                f"Remove floaters with `splat clean {shlex.quote(str(data.run.path))}`, or train with "
                "`--free-space 0.1`."
            ),
        )
    if measured and data.config.eval and training is not None and training - measured["psnr"] >= _OVERFIT:
        yield (
            prose(f"Photographs that it was trained on are much better, {training:.1f} dB: it overfits."),
            prose("Against overfitting, take more photographs, or try `--free-space 1 --steps 7000`."),
        )
    if measured.get("fitted_psnr", 0) - measured.get("psnr", 0) >= _UNEVEN and data.config.appearance == "none":
        yield (
            prose(
                f"The exposures of photographs differ: with fitted colours, it has {measured['fitted_psnr']:.1f} dB."
            ),
            prose("Against different exposures, train with `--appearance exposure`."),
        )


def _even(data: RunData, stops: Mapping[str, int]) -> Iterator[Markup]:
    """The worst views, if none is much worse than the others."""
    if scores := _scores(data):
        yield join("No view falls far behind. The worst are ", _links(scores[:_NUM_NAMED], stops), ".")


def _next(data: RunData, steps: Sequence[Markup]) -> Iterator[Markup]:
    """Steps that come first, `steps` against failures, and how to share the scene."""
    config, run = data.config, shlex.quote(str(data.run.path))
    if not data.is_finished:
        yield prose(f"Finish the training: `splat train --resume {run}`.")
    if not config.eval:
        scene = shlex.quote(data.provenance.get("scene", "SCENE"))
        yield prose(f"Measure new views: `splat train {scene} --eval` holds every 8th photograph out.")
    if config.downscale > 1:
        yield prose(
            f"For more detail, train without `--downscale`: photographs had 1/{config.downscale} of their size."
        )
    yield from steps
    if data.is_finished and config.eval and not steps:
        yield prose("For the last bit of detail, train with `--preset quality`.")
    page = shlex.quote(f"{data.run.path.resolve().name}.html")
    yield prose(f"Show the scene to others: `splat export {run} {page}` writes a page.")


def _links(views: Sequence[tuple[str, float]], stops: Mapping[str, int]) -> Markup:
    """The names with their scores; a click goes there in 3D."""
    parts: list[object] = []
    for name, score in views:
        text, number = f"{name} ({score:.1f} dB)", stops.get(name)
        parts += [", " if parts else None, text if number is None else tag("a", text, href="#stage", data_view=number)]
    return join(*parts)


def _scores(data: RunData) -> list[tuple[str, float]]:
    """(name, PSNR) of each evaluated view, worst first."""
    views: dict[str, dict[str, Any]] = data.measured.get("per_image", {})
    return sorted(((name, float(one["psnr"])) for name, one in views.items()), key=lambda view: view[1])


def _training_psnr(data: RunData) -> float | None:
    """Mean PSNR of photographs in the last tenth of training."""
    last = [line["psnr"] for line in data.figures if line.get("psnr") and line["step"] >= 0.9 * data.step]
    return float(np.mean(last)) if last else None
