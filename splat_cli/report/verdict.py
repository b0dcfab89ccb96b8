"""The report in words: how good the run is, where it fails, what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from splat_cli.config.combinations import uses_free_space
from splat_cli.report.markup import Markup, join, prose, tag
from splat_cli.report.run_data import ComparedView, RunData
from splat_cli.run.plan import SHORT_RUN

_GOOD, _FAIR = 26.0, 22.0  # dB
_GRADES = (
    (30.0, "very good: hard to tell from photographs"),
    (_GOOD, "good: only fine detail is lost"),
    (_FAIR, "fair: shapes are right, textures blur"),
    (18.0, "poor: much is blurred or in the wrong place"),
    (-np.inf, "bad: photographs and splats hardly agree"),
)
"""PSNR in dB -> what people see, for views that were held out."""
_FAR_BEHIND = 4.0  # dB below the median: views that fail
_OVERFIT = 4.0  # dB between photographs trained on and held-out ones
_HIDDEN = 0.05  # share of points behind floaters
_NOT_MATCHED = 20.0, 24.0  # dB of held-out photographs, and of those trained on: they contradict each other
_UNEVEN = 1.0  # dB that fitted colours gain
_NUM_NAMED = 3  # worst views
_COMPARED = (
    "The photograph is shifted against the splats: its pose is wrong. Estimate poses anew with `splat sfm`; if they "
    "are only a little off, train with `--pose-opt`.",
    "It is blurred, or something moved: leave it out, or train with `--robust`.",
    "The splats are smeared: take more photographs of that place.",
)

_UNSEEN = (
    "Beside the photographs and far from their cameras, the scene is blurred: no photograph shows it there. Take "
    "photographs of the places that you want to visit."
)


def verdict(data: RunData, stops: Mapping[str, int], compared: Sequence[ComparedView] = ()) -> Markup:
    """Three lists. stops: name of a view -> its number in the scene in 3D, for links. compared: views of the page."""
    scores = _Scores(data, compared)
    views = list(_failing_views(scores, stops))
    failures = [*_contradictions(data), *views, *_failing_everywhere(data)]
    lists = {
        "How good it is": list(_grade(data)),
        "Where it fails": [
            *([] if views else _even(scores, stops)),
            *(failure for failure, _ in failures),
            *([prose(_UNSEEN)] if scores.views else []),
        ],
        "What to do next": list(_next(data, [step for _, step in failures])),
    }
    parts = [
        join(tag("h2", title), tag("ul", *(tag("li", line) for line in lines)))
        for title, lines in lists.items()
        if lines
    ]
    return tag("section", *parts, class_="verdict")


def badge(data: RunData) -> Markup | None:
    """The score and its grade in a word, for the head of the page; nothing without held-out views."""
    if not data.measured or not data.config.eval:
        return None
    psnr = data.measured["psnr"]
    look = "good" if psnr >= _GOOD else "" if psnr >= _FAIR else "bad"
    return tag("span", f"PSNR {psnr:.1f} dB: {_words(psnr).split(':')[0]}", class_=f"badge {look}".strip())


def _words(psnr: float) -> str:
    return next(words for low, words in _GRADES if psnr >= low)


def _grade(data: RunData) -> Iterator[Markup]:
    """The mean score, in numbers and words."""
    measured, training = data.measured, _training_psnr(data)
    if measured:
        psnr, num = measured["psnr"], len(measured.get("per_image", {}))
        views = f"{num} photographs" if num != 1 else "a photograph"
        seen = "that training has not seen" if data.config.eval else "that it was trained on"
        size = f", at 1/{data.config.downscale} of their size" if data.config.downscale > 1 else ""
        limit = f", at most {data.config.max_size} pixels wide or high" if data.config.max_size else ""
        yield join(tag("b", f"PSNR {psnr:.1f} dB"), f" over {views} {seen}{size}{limit}: ", tag("b", _words(psnr)), ".")
    elif training is not None:
        yield prose(f"Photographs that it was trained on have a PSNR of {training:.1f} dB.")
    if measured or training is not None:
        which = "these photographs, which were held out" if measured and data.config.eval else "photographs"
        yield prose(
            f"PSNR compares renders with {which}. Renders of 30 dB and more are hard to "
            "tell from photographs; at 25 dB, fine detail blurs; under 20 dB, shapes are wrong. Outdoors, where leaves "
            "and people move, 20 to 25 dB are usual."
        )
    if not (measured and data.config.eval):
        yield prose("New views look worse than photographs that it was trained on; how much worse was not measured.")


class _Scores:
    """PSNR of evaluated views, or, without an evaluation, of those that the page compares.

    views: (name, PSNR), worst first. which: text after "views" that distinguishes the latter.
    """

    def __init__(self, data: RunData, compared: Sequence[ComparedView]) -> None:
        measured: dict[str, dict[str, Any]] = data.measured.get("per_image", {})
        views = {name: float(one["psnr"]) for name, one in measured.items()}
        self.which = "" if views else " compared below"
        views = views or {one.view.name: one.score.psnr for one in compared}
        self.views = sorted(views.items(), key=lambda view: view[1])


def _failing_views(scores: _Scores, stops: Mapping[str, int]) -> Iterator[tuple[Markup, Markup]]:
    """(what is wrong, what to do) if some views are much worse than the others."""
    median = float(np.median([score for _, score in scores.views])) if scores.views else 0.0
    behind = [(name, score) for name, score in scores.views if score < median - _FAR_BEHIND]
    if behind:
        more = f" and {len(behind) - _NUM_NAMED} more" if len(behind) > _NUM_NAMED else ""
        verb = "is" if len(behind) == 1 else "are"
        yield (
            join(
                f"{len(behind)} of {len(scores.views)} views{scores.which} {verb} over {_FAR_BEHIND:g} dB worse "
                f"than the median of {median:.1f} dB: ",
                _links(behind[:_NUM_NAMED], stops),
                f"{more}.",
            ),
            join(
                "Click on the worst views above, and move the slider under the scene to compare them with their "
                "photographs:",
                tag("ul", *(tag("li", prose(line)) for line in _COMPARED)),
            ),
        )


def _failing_everywhere(data: RunData) -> Iterator[tuple[Markup, Markup]]:
    """(what is wrong, what to do) for the whole scene."""
    measured = data.measured
    if (hidden := measured.get("hidden_points", 0)) >= _HIDDEN:
        train = "" if uses_free_space(data.config) else ", or train with `--free-space 0.1`"
        yield (
            prose(f"There are floaters: splats in empty space hide {hidden:.0%} of the points behind them."),
            prose(f"Remove floaters with `splat clean {shlex.quote(str(data.run.path))}`{train}."),
        )
    if _overfits(data):
        yield (
            prose(f"Photographs that it was trained on are much better, {_training_psnr(data):.1f} dB: it overfits."),
            _against_overfitting(data),
        )
    if measured.get("fitted_psnr", 0) - measured.get("psnr", 0) >= _UNEVEN and not data.config.has_appearance:
        yield (
            prose(
                f"The exposures of photographs differ: with fitted colours, it has {measured['fitted_psnr']:.1f} dB."
            ),
            prose("Against different exposures, train with `--appearance exposure`."),
        )


def _contradictions(data: RunData) -> Iterator[tuple[Markup, Markup]]:
    """(what is wrong, what to do) if held-out photographs and those of training are poor: the cause of all else."""
    training = _training_psnr(data)
    if not (data.config.eval and data.measured and training is not None):
        return
    if data.measured["psnr"] < _NOT_MATCHED[0] and training < _NOT_MATCHED[1]:
        yield (
            prose(f"Photographs that it was trained on look wrong, too: {training:.1f} dB."),
            prose(
                "Photographs contradict each other. If most are shifted against the splats, their poses are wrong: "
                "estimate new ones with `splat sfm PHOTOS -o SCENE`, and train SCENE."
            ),
        )


def _overfits(data: RunData) -> bool:
    training = _training_psnr(data)
    return bool(data.measured) and data.config.eval and (training or 0.0) - data.measured["psnr"] >= _OVERFIT


def _against_overfitting(data: RunData) -> Markup:
    """Advice against overfitting; in a run without trials, to try by hand what they would have tried."""
    start = "Against overfitting, take more photographs"
    if data.trials:
        return prose(f"{start}. Trial runs have already tried `--free-space` with half the steps.")
    steps = f"`--steps {data.config.num_steps // 2}`"
    return prose(f"{start}, or try half the steps, {steps}, and `--free-space 1`.")


def _even(scores: _Scores, stops: Mapping[str, int]) -> Iterator[Markup]:
    """The worst views, if none is much worse than the others."""
    if scores.views:
        worst = _links(scores.views[:_NUM_NAMED], stops)
        yield join(f"No view{scores.which} falls far behind. The worst are ", worst, ".")


def _next(data: RunData, steps: Sequence[Markup]) -> Iterator[Markup]:
    """Steps that come first, `steps` against failures, and how to share the scene."""
    config, run = data.config, shlex.quote(str(data.run.path))
    if not data.is_finished:
        yield prose(f"Finish the training: `splat train --resume {run}`.")
    if not config.eval:
        yield prose(f"Measure new views: `{_training(data)} --eval` holds every 8th photograph out.")
    if data.is_finished and config.num_steps < SHORT_RUN and not data.trials and not _overfits(data):
        yield prose(
            f"For more detail, train longer: {config.num_steps:,} steps are few, `{_training(data)}` takes enough."
        )
    yield from steps
    if config.downscale > 1:
        yield prose(
            f"For more detail, train without `--downscale`: photographs had 1/{config.downscale} of their size."
        )
    if data.is_finished and config.eval and not steps:
        steps = [prose("For the last bit of detail, train with `--preset quality`.")]
        yield from steps
    if any(">--" in step for step in steps):
        yield prose(f"Add such options, several at once if you like, to `{_training(data)}`.")
    page, ply, glb = (shlex.quote(data.run.path.resolve().name + suffix) for suffix in (".html", ".ply", ".glb"))
    yield prose(
        f"Show the scene to others: send this file, which works offline, or the page of `splat export {run} {page}`."
    )
    yield prose(
        f"Open it in other programs: `splat export {run} {ply}` writes splats for any viewer, and for Blender, "
        f"Unity and Unreal with a plugin for splats; `splat mesh {run} {glb}` writes triangles, which need none."
    )


def _training(data: RunData) -> str:
    """The beginning of a command that trains the scene."""
    return f"splat train {shlex.quote(data.provenance.get('scene', 'SCENE'))}" + " --eval" * data.config.eval


def _links(views: Sequence[tuple[str, float]], stops: Mapping[str, int]) -> Markup:
    """The names with their scores; a click goes there in 3D."""
    parts: list[object] = []
    for name, score in views:
        text, number = f"{name} ({score:.1f} dB)", stops.get(name)
        parts += [", " if parts else None, text if number is None else tag("a", text, href="#stage", data_view=number)]
    return join(*parts)


def _training_psnr(data: RunData) -> float | None:
    """Mean PSNR of photographs in the last tenth of training."""
    last = [line["psnr"] for line in data.figures if line.get("psnr") and line["step"] >= 0.9 * data.step]
    return float(np.mean(last)) if last else None
