"""The report in words: how good the run is, where it fails, what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from splat_cli.config import SETTINGS, TrainConfig
from splat_cli.config.combinations import single_gpu_options, uses_free_space
from splat_cli.config.presets import as_arguments, changed_settings
from splat_cli.report.markup import Markup, code, join, prose, roughly, tag
from splat_cli.report.run_data import ComparedView, RunData
from splat_cli.run.plan import LONG_VIEWS, SHORT_RUN, default_batch, default_steps
from splat_cli.scene.lens.distortion import Equirectangular

_GOOD, _FAIR = 26.0, 22.0  # dB
_GRADES = (
    (30.0, "very good: hard to tell from photographs"),
    (_GOOD, "good: only fine detail is lost"),
    (_FAIR, "fair: shapes are right, textures blur"),
    (20.0, "poor: much is blurred or in the wrong place"),
    (-np.inf, "bad: shapes are wrong"),
)
"""PSNR in dB -> what people see, for views that were held out."""
_FAR_BEHIND = 4.0  # dB below the median: views that fail
_OVERFIT = 4.0  # dB between photographs trained on and held-out ones
_HIDDEN = 0.05  # share of points behind floaters
_NOT_MATCHED = 20.0, 24.0  # dB of held-out photographs, and of those trained on: they contradict each other
_UNEVEN = 1.0  # dB that fitted colours gain
_NUM_NAMED = 3  # worst views
_MANY_SPLATS, _MORE_SPLATS = 3_000_000, 2.5  # --max-splats and splats of --preset quality, relative to the default
_MESH_STEPS, _MESH_STEPS_PER_VIEW = 1000, 10  # steps of `splat mesh`, and as many as fusing a depth map takes
_COMPARE = (
    "Click on the worst views above, and move the slider under the scene to compare them with their photographs. If a "
    "photograph is shifted against the splats, its pose is wrong: {pose}. If it is blurred, or something moved, "
    "{moved}. If the splats are smeared, take more photographs of that place."
)
_MORE_PHOTOGRAPHS = (
    "Take more photographs of what the worst views show: sharp ones, each of which overlaps the next by two thirds, in "
    "the same light. No setting of the training is known to help this run."
)
_UNSEEN = (
    "Beside the photographs and far from their cameras, the scene is blurred: no photograph shows it there. Take "
    "photographs of the places that you want to visit."
)


@dataclass(frozen=True)
class _Step:
    """A thing to do. command: None if no command does it; seconds: None if it is unknown how long it takes."""

    why: Markup
    command: str | None = None
    seconds: float | None = None

    def markup(self) -> Markup:
        """The reason, the time, and the command as a block, to which the page adds a button that copies it."""
        if self.command is None:
            return self.why
        time = None if self.seconds is None else tag("small", f" ({roughly(self.seconds)})")
        return join(self.why, time, tag("pre", code(self.command)))


def verdict(data: RunData, stops: Mapping[str, int], compared: Sequence[ComparedView] = ()) -> Markup:
    """Three lists. stops: name of a view -> its number in the scene in 3D, for links. compared: views of the page."""
    scores = _Scores(data, compared)
    fails = [
        *_contradictions(data),
        *(_failing_views(scores, stops) or _even(scores, stops)),
        *_failing_everywhere(data, compared, stops),
        *([prose(_UNSEEN)] if scores.views else []),
    ]
    lists = {
        ("How good it is", "ul"): list(_grade(data)),
        ("Where it fails", "ul"): fails,
        ("What to do next", "ol"): [step.markup() for step in _next(data, scores)],
    }
    device = data.provenance.get("device", "the machine that trained this run")
    note = f"The first helps most. This run stays as it is: commands write new files. Times are estimates for {device}."
    notes = {"ol": tag("p", note, class_="note")}
    parts = [
        join(tag("h2", title), notes.get(kind), tag(kind, *(tag("li", line) for line in lines)))
        for (title, kind), lines in lists.items()
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

    views: (name, PSNR), worst first. is_poor: their mean is low. which: text after "views" that distinguishes the
    latter.
    """

    def __init__(self, data: RunData, compared: Sequence[ComparedView]) -> None:
        measured: dict[str, dict[str, Any]] = data.measured.get("per_image", {})
        views = {name: float(one["psnr"]) for name, one in measured.items()}
        self.which = "" if views else " compared below"
        views = views or {one.view.name: one.score.psnr for one in compared}
        self.views = sorted(views.items(), key=lambda view: view[1])
        self.is_poor = bool(self.views) and float(np.mean([score for _, score in self.views])) < _FAIR


def _behind(scores: _Scores) -> tuple[list[tuple[str, float]], float]:
    """The views that are much worse than the others, with their scores, and the median score."""
    median = float(np.median([score for _, score in scores.views])) if scores.views else 0.0
    return [(name, score) for name, score in scores.views if score < median - _FAR_BEHIND], median


def _failing_views(scores: _Scores, stops: Mapping[str, int]) -> list[Markup]:
    """What is wrong if some views are much worse than the others."""
    behind, median = _behind(scores)
    if not behind:
        return []
    more = f" and {len(behind) - _NUM_NAMED} more" if len(behind) > _NUM_NAMED else ""
    verb = "is" if len(behind) == 1 else "are"
    start = f"{len(behind)} of {len(scores.views)} views{scores.which} {verb} over {_FAR_BEHIND:g} dB worse than the "
    return [join(start, f"median of {median:.1f} dB: ", _worst(behind, stops), f"{more}.")]


def _even(scores: _Scores, stops: Mapping[str, int]) -> list[Markup]:
    """The worst views, if none is much worse than the others."""
    if not scores.views:
        return []
    poor = ": all are poor" if scores.is_poor else ""
    start = f"No view{scores.which} is far worse than others{poor}. The worst are "
    return [join(start, _worst(scores.views, stops), ".")]


def _worst(views: Sequence[tuple[str, float]], stops: Mapping[str, int]) -> Markup:
    """The first of views sorted by their scores."""
    return _links([(name, f"{score:.1f} dB") for name, score in views[:_NUM_NAMED]], stops)


def _failing_everywhere(data: RunData, compared: Sequence[ComparedView], stops: Mapping[str, int]) -> Iterator[Markup]:
    """What is wrong in the whole scene."""
    hidden = data.measured.get("hidden_points")
    if hidden == 0:
        yield prose("There are no floaters: no splats in empty space hide points behind them.")
    elif hidden is not None:
        page = shlex.quote(_name(data) + "-floaters.html")
        many = "" if hidden >= _HIDDEN else "few "
        yield join(
            f"There are {many}floaters: splats in empty space hide {_percent(hidden)} of the points behind them",
            _most_hidden(hidden, compared, stops),
            prose(f". `splat clean {_run(data)} --preview {page}` writes a page that shows them in magenta."),
        )
    if _overfits(data):
        yield prose(f"Photographs that it was trained on are much better, {_training_psnr(data):.1f} dB: it overfits.")
    if _is_uneven(data):
        fitted = data.measured["fitted_psnr"]
        yield prose(f"The exposures of photographs differ: with fitted colours, it has {fitted:.1f} dB.")


def _most_hidden(hidden: float, compared: Sequence[ComparedView], stops: Mapping[str, int]) -> Markup | None:
    """The compared views in which floaters hide more points than on average."""
    views = sorted((-one.hidden, one.view.name) for one in compared if one.hidden and one.hidden > hidden)
    if not views:
        return None
    return join(", most in ", _links([(name, _percent(-share)) for share, name in views[:_NUM_NAMED]], stops))


def _percent(share: float) -> str:
    return f"{100 * share:.{0 if share >= 0.0995 else 1}f} %" if share >= 0.001 else "under 0.1 %"


def _is_uneven(data: RunData) -> bool:
    measured = data.measured
    return measured.get("fitted_psnr", 0) - measured.get("psnr", 0) >= _UNEVEN and not data.config.has_appearance


def _contradictions(data: RunData) -> list[Markup]:
    """What is wrong if held-out photographs and those of training are poor, except in short or unfinished runs."""
    training = _training_psnr(data)
    if not (data.config.eval and data.measured and training is not None) or not data.is_finished or _is_short(data):
        return []
    if data.measured["psnr"] >= _NOT_MATCHED[0] or training >= _NOT_MATCHED[1]:
        return []
    return [
        prose(f"Photographs that it was trained on look wrong, too, {training:.1f} dB: they contradict each other.")
    ]


def _overfits(data: RunData) -> bool:
    training = _training_psnr(data)
    return bool(data.measured) and data.config.eval and (training or 0.0) - data.measured["psnr"] >= _OVERFIT


def _next(data: RunData, scores: _Scores) -> Iterator[_Step]:
    """Steps in the order of what they gain; how to share the scene comes first where nothing is wrong."""
    steps = [*_mend(data, scores)]
    if not steps and scores.is_poor:
        steps = [_Step(prose(_MORE_PHOTOGRAPHS))]
    yield from steps
    yield _share(data, "" if steps else "Nothing needs to be corrected. ")
    if not steps and len(data.run.views("train")) >= LONG_VIEWS and data.config.max_splats < _MANY_SPLATS:
        better = f"{_training(data, splat_budget=None)} --preset quality"
        why = f"For the last bit of detail, train {_MORE_SPLATS:g} times as many splats."
        yield _Step(prose(why), better, _seconds(data, _MORE_SPLATS))
    ply, glb = (shlex.quote(_name(data) + suffix) for suffix in (".ply", ".glb"))
    yield _Step(
        prose("Open it in other programs: splats for any viewer, and for Blender, Unity and Unreal with a plugin:"),
        f"splat export {_run(data)} {ply}",
        0.0,
    )
    work = (_MESH_STEPS + _MESH_STEPS_PER_VIEW * len(data.run.views("train"))) / data.config.num_steps
    mesh = f"splat mesh {_run(data)} {glb}"
    yield _Step(prose("Triangles for all other programs:"), mesh, _seconds(data, work, whole=False))


def _mend(data: RunData, scores: _Scores) -> Iterator[_Step]:
    """Steps against failures."""
    if not data.is_finished:
        left = _seconds(data, data.config.num_steps / max(data.step, 1) - 1, whole=False)
        yield _Step(prose("Finish the training."), f"splat train --resume {_run(data)}", left)
    if _contradictions(data):
        new = shlex.quote(f"{data.provenance.get('scene', 'SCENE').rstrip('/')}-sfm")
        yield _Step(
            prose(
                "If most photographs are shifted against the splats, their poses are wrong. Estimate new ones from "
                "your folder of PHOTOS, and train with them."
            ),
            f"splat sfm PHOTOS -o {new} && splat train {new}" + " --eval" * data.config.eval,
        )
    reasons, changes = _better_training(data)
    if reasons:
        command, seconds = _training(data, **changes), _seconds(data, _work(data, changes))
        yield _Step(prose(f"Train again: {'; '.join(reasons)}."), command, seconds)
    if data.measured.get("hidden_points", 0) >= _HIDDEN:
        keeps = uses_free_space(data.config) or _is_spherical(data)
        train = "" if keeps else " If they come back, train with `--free-space 0.1`."
        yield _Step(prose(f"Remove floaters.{train}"), f"splat clean {_run(data)}", _seconds_to_clean(data))
    if _behind(scores)[0]:
        yield _compare(data, changes)
    if _overfits(data) and data.trials:
        yield _Step(prose("Take more photographs against overfitting. Trial runs have already tried shorter training."))


def _compare(data: RunData, changes: Mapping[str, Any]) -> _Step:
    """Find out why some views fail. The command has the first option against it that the run has not."""
    config = data.config
    pose = "estimate poses anew with `splat sfm`" if config.pose_opt else "train again with `--pose-opt`"
    moved = "leave it out" if config.robust else f"train with `--robust`{'' if config.pose_opt else ' instead'}"
    why = prose(_COMPARE.format(pose=pose, moved=moved))
    if config.pose_opt and config.robust:
        return _Step(why)
    option = "robust" if config.pose_opt else "pose_opt"
    return _Step(why, _training(data, **changes, **{option: True}), _seconds(data, _work(data, changes)))


def _better_training(data: RunData) -> tuple[list[str], dict[str, Any]]:
    """Reasons for a new run, and settings that it changes; None: the default."""
    config, reasons, changes = data.config, list[str](), dict[str, Any]()
    if not config.eval:
        reasons.append("`--eval` holds every 8th photograph out, to measure new views")
        changes["eval"] = True
    if config.downscale > 1:
        reasons.append(f"photographs had 1/{config.downscale} of their size, in full they show more detail")
        changes["downscale"] = 1
    if data.is_finished and not data.trials:
        if _overfits(data):
            changes["steps"] = max(config.num_steps // 2, 1)
            if _is_spherical(data):
                reasons.append("half the steps prevent overfitting")
            else:
                reasons.append("half the steps and a penalty on splats in empty space prevent overfitting")
                changes["free_space"] = 1.0
        elif _is_short(data):
            reasons.append(f"{config.num_steps:,} steps are few, by default it has about {_default_steps(data):,}")
            changes["steps"] = None
    if _is_uneven(data):
        reasons.append("`--appearance exposure` evens out different exposures")
        changes["appearance"] = "exposure"
    return reasons, changes


def _default_steps(data: RunData) -> int:
    return default_steps(len(data.run.views("train")))


def _is_short(data: RunData) -> bool:
    """Whether more steps would show more of what photographs agree on."""
    return data.config.num_steps < min(SHORT_RUN, _default_steps(data))


def _is_spherical(data: RunData) -> bool:
    """Whether photographs are spherical: these allow no penalty on splats in empty space."""
    return any(isinstance(view.distortion, Equirectangular) for view in data.run.views("train"))


def _training(data: RunData, **changes: Any) -> str:
    """The command that trains the scene with the settings of this run, also those that trials chose, and `changes`.

    Without what the run chose by itself, and without several GPUs if a change needs a single one.
    """
    config, chosen = data.config, data.trials.get("chosen", {})
    settings = changed_settings(config)
    settings.pop("save_at", None)
    if not data.trials and config.num_steps == _default_steps(data):
        settings.pop("steps", None)
    batch = default_batch(config, config.num_steps, len(data.run.views("train")))
    if "batch" not in chosen and settings.get("batch") == batch:
        settings.pop("batch", None)
    settings = {name: value for name, value in {**settings, **changes}.items() if value != SETTINGS[name].default}
    if single_gpu_options(TrainConfig(**settings)) and settings.pop("gpus", None):
        settings.pop("batch", None)
    return shlex.join(["splat", "train", data.provenance.get("scene", "SCENE"), *as_arguments(settings)])


def _work(data: RunData, changes: Mapping[str, Any]) -> float:
    """How much work a run with changed settings is, relative to this one."""
    steps = changes.get("steps", data.config.num_steps) or _default_steps(data)
    finer = data.config.downscale / changes.get("downscale", data.config.downscale)
    return float(steps / data.config.num_steps * finer**2)


def _seconds(data: RunData, work: float, whole: bool = True) -> float | None:
    """How long `work` times the steps of this run take on the same machine, with the rest of a `whole` run."""
    if not data.figures:
        return None
    steps = float(data.figures[-1]["seconds"])
    return steps * work + (max(sum(data.phases.values()) - steps, 0.0) if whole else 0.0)


def _seconds_to_clean(data: RunData) -> float | None:
    """As long as training on each photograph once, and loading the photographs."""
    one = _seconds(data, len(data.run.views("train")) / data.config.num_steps, whole=False)
    return None if one is None else one + data.phases.get("reading the scene", 0.0)


def _share(data: RunData, start: str) -> _Step:
    """How to give the scene to others."""
    return _Step(
        prose(
            f"{start}Show the scene to others: send this file, which works offline and holds photographs, their names "
            "and folders of this machine, or a page of the scene alone."
        ),
        f"splat export {_run(data)} {shlex.quote(_name(data) + '.html')}",
        0.0,
    )


def _run(data: RunData) -> str:
    return shlex.quote(str(data.run.path.resolve()))


def _name(data: RunData) -> str:
    return data.run.path.resolve().name


def _links(views: Sequence[tuple[str, str]], stops: Mapping[str, int]) -> Markup:
    """The names with their figures; a click goes there in 3D."""
    parts: list[object] = []
    for name, figure in views:
        text, number = f"{name} ({figure})", stops.get(name)
        parts += [", " if parts else None, text if number is None else tag("a", text, href="#stage", data_view=number)]
    return join(*parts)


def _training_psnr(data: RunData) -> float | None:
    """Mean PSNR of photographs in the last tenth of training."""
    last = [line["psnr"] for line in data.figures if line.get("psnr") and line["step"] >= 0.9 * data.step]
    return float(np.mean(last)) if last else None
