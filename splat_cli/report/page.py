"""The report's page and its sections: key numbers, comparisons of views, map of the cameras, settings."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from types import MappingProxyType

import numpy as np

from splat_cli.config import SETTINGS
from splat_cli.config.presets import changed_settings
from splat_cli.errors import UsageError
from splat_cli.eval.metrics import COLORS, FULL_ERROR
from splat_cli.gaussians.arrays import SH_C0, SplatArrays, opacities
from splat_cli.report.charts import curves, distributions, measured_views
from splat_cli.report.markup import Markup, compact, duration, join, png, size, tag, ticks
from splat_cli.report.run_data import ComparedView, RunData
from splat_cli.report.verdict import badge, verdict
from splat_cli.run.storage.records import as_options, trial_options
from splat_cli.scene.view import View


def comparison(views: Sequence[ComparedView]) -> Markup | None:
    """A figure per view; the page's script implements slider and error map."""
    if not views:
        return None
    return tag("div", *map(_figure, views), class_="views")


def photograph_id(view: ComparedView) -> str:
    """The id of the view's photograph in the page."""
    return f"photograph-{hashlib.sha256(view.view.name.encode()).hexdigest()[:8]}"


def _figure(view: ComparedView) -> Markup:
    score = view.score
    looks = "" if score.flip is None else f" · FLIP {score.flip:.3f}"
    caption = tag(
        "figcaption",
        tag("b", view.view.name),
        _badge(view),
        tag("br"),
        tag("small", f"PSNR {score.psnr:.2f} dB · SSIM {score.ssim:.4f}{looks}"),
    )
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
        "img",
        src=address,
        id=photograph_id(view) if what == "photograph" else None,
        class_=what.split()[0],
        alt=f"{what} of {view.view.name}",
        width=view.view.width,
        height=view.view.height,
        decoding="async",
    )


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
    return tag("span", "same colour", bar, f"{round(255 * FULL_ERROR)} of 255 apart or more", class_="legend")


_SIDE = 480  # user units of the SVG
_MAP_SIDES = (120, 640)  # range of the raster's side, px; about one pixel per splat
_SPLAT_OPACITY = 0.35  # opacity of a splat
_CORE = (10, 90)  # percentiles of the points that the picture must contain


def camera_map(
    splats: SplatArrays,
    views: Sequence[View],
    held_out: frozenset[str],
    stops: Mapping[str, int] = MappingProxyType({}),
) -> Markup:
    """The splats and all cameras from above; splats above the cameras are omitted. stops: see `page`."""
    colors = np.clip(0.5 + SH_C0 * splats.sh0.astype(np.float64), 0, 1)
    return map_from_above(splats.means, colors, opacities(splats), views, held_out, "splats", stops=stops)


def map_from_above(
    points: np.ndarray,
    colors: np.ndarray,
    weights: np.ndarray,
    views: Sequence[View],
    marked: frozenset[str],
    what: str,
    places: Sequence[tuple[np.ndarray, np.ndarray]] = (),
    stops: Mapping[str, int] = MappingProxyType({}),
) -> Markup:
    """Points [P, 3], colours [P, 3] of 0 to 1 and their weights [P] from above, and cameras.

    marked: names of held-out views; what: the points are; places: (position, direction) of more cameras, which get a
    number. stops: see `page`; a click on such a camera goes there.
    """
    centers = np.array([view.center for view in views])
    axes = _ground_axes(views, centers)
    cameras, directions = centers @ axes.T, np.array([view.w2c[2, :3] for view in views]) @ axes.T
    places = [(place @ axes.T, direction @ axes.T) for place, direction in places]
    points = points.astype(np.float64) @ axes.T
    ceiling = cameras[:, 2].max() + 0.2 * np.ptp(cameras, axis=0).max()
    below = points[:, 2] <= ceiling
    low, width = _window(np.array([*cameras[:, :2], *(place[:2] for place, _ in places)]), points[below, :2])
    density = _density(below, (points[:, :2] - low) / width, colors, weights)
    marks = [
        _link(
            _arrowhead((place - low) / width * _SIDE, direction, view.name, view.name in marked), stops.get(view.name)
        )
        for view, place, direction in zip(views, cameras[:, :2], directions[:, :2], strict=True)
    ]
    marks += [
        _numbered(str(number), (place[:2] - low) / width * _SIDE, direction[:2])
        for number, (place, direction) in enumerate(places, 1)
    ]
    picture = tag("image", href=png(density), width=_SIDE, height=_SIDE) if len(density) else None
    label = f"{len(views)} cameras and the {what} from above"
    return tag("svg", picture, *marks, _scale_bar(width), viewBox=f"0 0 {_SIDE} {_SIDE}", role="img", aria_label=label)


def _ground_axes(views: Sequence[View], centers: np.ndarray) -> np.ndarray:
    """Axes [3, 3] of the picture: right, down and up, from the mean up direction of the cameras."""
    few = len(centers) < 3  # only for few points: a reduced SVD lacks the third axis, a full SVD has an [N, N] matrix
    spread = np.linalg.svd(centers - centers.mean(axis=0), full_matrices=few)[2]
    up = -np.mean([view.w2c[1, :3] for view in views], axis=0)
    up = spread[2] if np.linalg.norm(up) < 0.3 else up / np.linalg.norm(up)
    right = spread[0] - (spread[0] @ up) * up
    if np.linalg.norm(right) < 1e-6:  # cameras are vertically aligned
        right = np.cross(up, np.eye(3)[np.argmin(np.abs(up))])
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(right, up), up])


def _window(cameras: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, float]:
    """(corner, side) of the square that contains all cameras and most points."""
    core = np.percentile(points, _CORE, axis=0) if len(points) else cameras
    corners = np.concatenate([cameras, core])
    low, high = corners.min(axis=0), corners.max(axis=0)
    width = 1.12 * max(float((high - low).max()), 1e-6)
    return (low + high - width) / 2, width


def _density(chosen: np.ndarray, places: np.ndarray, colors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """uint8 [H, W, 4]: mean colour of the points in each pixel; opacity increases with their number."""
    inside = chosen & ((places >= 0) & (places < 1)).all(axis=1)
    side = int(np.clip(np.sqrt(inside.sum()), *_MAP_SIDES))
    column, row = (places[inside] * side).astype(int).T
    pixel, weight = row * side + column, weights[inside]
    total = np.bincount(pixel, weight, side**2)
    sums = np.stack([np.bincount(pixel, weight * colors[inside, c], side**2) for c in range(3)], axis=1)
    alpha = 1 - (1 - _SPLAT_OPACITY) ** total
    rgba = np.concatenate([sums / np.maximum(total, 1e-9)[:, None], alpha[:, None]], axis=1)
    return np.rint(255 * rgba).astype(np.uint8).reshape(side, side, 4)


def _link(mark: Markup, number: int | None) -> Markup:
    """The mark; a click goes to the view of that number in the scene in 3D."""
    return mark if number is None else tag("a", mark, href="#stage", data_view=number)


def _numbered(number: str, place: np.ndarray, direction: np.ndarray) -> Markup:
    """A large arrowhead with a number beside it."""
    x, y = place - 18 * direction / max(float(np.linalg.norm(direction)), 1e-6)
    mark = _arrowhead(place, direction, f"place {number}", True)
    return tag("g", mark, tag("text", number, x=round(x, 1), y=round(y + 4, 1), text_anchor="middle"), class_="place")


def _arrowhead(place: np.ndarray, direction: np.ndarray, name: str, held_out: bool) -> Markup:
    """A triangle that points in the viewing direction, or a dot for a vertical one."""
    title = tag("title", f"{name} (held out)" if held_out else name)
    look = "held-out" if held_out else "trained"
    length = float(np.linalg.norm(direction))
    if length < 0.1:
        return tag("circle", title, class_=look, cx=round(place[0], 1), cy=round(place[1], 1), r=4)
    forward = direction / length
    side = np.array([-forward[1], forward[0]])
    corners = [place + 9 * forward, place - 4 * forward + 5 * side, place - 4 * forward - 5 * side]
    return tag("polygon", title, class_=look, points=" ".join(f"{x:.1f},{y:.1f}" for x, y in corners))


def _scale_bar(width: float) -> Markup:
    """A scale bar with a round length, about a fifth of the picture."""
    length = ticks(0, width, 5)[1]
    pixels, y = length / width * _SIDE, _SIDE - 12
    bar = tag("line", x1=12, x2=round(12 + pixels, 1), y1=y, y2=y)
    return tag("g", bar, tag("text", f"{length:g} world units", x=12, y=y - 6), class_="scale")


_HERE = Path(__file__).parent
_HEAD = 4096  # bytes of a page that hold its generator
_MEASURES = {
    "`hidden_points`": "points hidden by floaters",
    "`opacity_before_points`": "opacity before points",
    "`_train`: of views trained on": "both are also measured on views trained on",
    "`fitted_`": "colours fitted",
    "`pose_fitted_`": "poses fitted",
}
"""Keys of metrics.json as its protocol names them -> names on the page."""


def page(
    data: RunData,
    splats: SplatArrays | None,
    views: Sequence[ComparedView],
    stops: Mapping[str, int] = MappingProxyType({}),
) -> str:
    """The HTML document, without external resources; `SCENE` marks the place of the scene in 3D.

    stops: name of a view -> its number in the scene in 3D.
    """
    sections = [
        _head(data, splats),
        SCENE,
        verdict(data, stops, views),
        _fold("Renders and photographs", comparison(views), _which(data, views), is_open=not stops),
        _fold("Scores", join(_tiles(data, splats), measured_views(data))),
        _warnings(data),
        _fold("Training", curves(data)),
        _trials(data),
        _fold(
            "Cameras from above",
            _map(data, splats, stops),
            "A click on a camera goes there in 3D." if stops else None,
        ),
        _fold("Settings", _settings(data)),
        _fold("Splats", distributions(splats), "Number of splats by opacity and by size in world units.")
        if splats and len(splats)
        else None,
        _time(data),
        _foot(data),
    ]
    return document(f"{_scene_name(data)}: report of training", join(*sections))


SCENE = Markup("<!-- scene in 3D -->")
GENERATOR = '<meta name="generator" content="splat"'
"""The beginning of a line that identifies pages of this program."""


def refuse_other_file(path: Path) -> None:
    """UsageError if a page would replace a folder, or a file that is not such a page."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give the name of a file to write")
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if GENERATOR.encode() not in head:
            raise UsageError(f"{path} is not a page of splat and would be overwritten: name another file")


def document(title: str, body: Markup) -> str:
    """An HTML document with the style and the script of reports."""
    parts = {name: (_HERE / f"page.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")}
    return Template(parts["html"]).substitute(title=join(title), style=parts["css"], script=parts["js"], body=body)


def section(title: str, content: Markup | None) -> Markup | None:
    """A section; nothing without content."""
    return tag("section", tag("h2", title), content) if content else None


def _fold(title: str, content: Markup | None, note: str | None = None, is_open: bool = False) -> Markup | None:
    """A section that a click on its title opens and closes; nothing without content."""
    if not content:
        return None
    about = tag("p", note, class_="note") if note else None
    return tag("details", tag("summary", tag("h2", title)), about, content, class_="fold", open="" if is_open else None)


def _scene_name(data: RunData) -> str:
    return Path(data.provenance.get("scene", "")).name or data.run.path.resolve().name


def _head(data: RunData, splats: SplatArrays | None) -> Markup:
    done = "finished: " if data.is_finished else f"not finished: {data.step:,} of "
    look = "badge good" if data.is_finished else "badge bad"
    state = tag("span", f"{done}{data.config.num_steps:,} steps", class_=look)
    when = f"{data.when.day} {data.when:%B %Y, %H:%M}"
    details = [when, data.provenance.get("device"), f"splat {data.provenance.get('version', '')}"]
    views = len(data.run.views("train" if data.config.eval else "all"))
    what = f"A scene in 3D, made of {len(splats):,} splats by training on {views:,} photographs." if splats else None
    return tag(
        "header",
        tag("h1", _scene_name(data)),
        tag("p", what) if what else None,
        tag("p", state, " ", badge(data), " ", *_dotted([one for one in details if one])),
    )


def _dotted(texts: Sequence[str]) -> list[Markup | str]:
    """The texts with dots between them, at which lines break."""
    parts: list[Markup | str] = []
    for text in texts:
        parts += [" · " if parts else "", tag("span", text, class_="detail")]
    return parts


def _tiles(data: RunData, splats: SplatArrays | None) -> Markup:
    """Key numbers of the run."""
    measured, last = data.measured, data.figures[-1] if data.figures else {}
    tiles = []
    if measured:
        tiles += [
            (f"PSNR, {data.seen}", f"{measured['psnr']:.2f}", "dB"),
            (f"SSIM, {data.seen}", f"{measured['ssim']:.4f}", ""),
        ]
        for name, fitted in ("fitted_psnr", "colours"), ("pose_fitted_psnr", "poses"):
            tiles += [(f"PSNR, {fitted} fitted", f"{measured[name]:.2f}", "dB")] if name in measured else []
        tiles += [(f"FLIP, {data.seen}", f"{measured['flip']:.4f}", "")] if "flip" in measured else []
        tiles += [(f"LPIPS, {data.seen}", f"{measured['lpips']:.4f}", "")] if "lpips" in measured else []
    if "hidden_points" in measured:
        tiles.append(("Points hidden by floaters", f"{100 * measured['hidden_points']:.1f}", "%"))
    if splats:
        tiles.append(("Splats", f"{len(splats):,}", ""))
    if last:
        tiles.append(("Training time", duration(last["seconds"]), ""))
        tiles.append(("Speed", compact(last["step"] / max(last["seconds"], 1e-6)), "steps/s"))
    memory = max((line.get("memory_bytes", 0) for line in data.figures), default=0)
    if memory:
        tiles.append(("Peak memory", size(memory), ""))
    views, config = len(data.run.views("all")), data.config
    held_out = len(data.run.views("test")) if config.eval else 0
    tiles.append(
        ("Photographs + held out", f"{views - held_out:,} + {held_out:,}", "")
        if held_out
        else ("Photographs", f"{views:,}", "")
    )
    return tag(
        "dl",
        *(tag("div", tag("dt", name), tag("dd", value, tag("small", f" {unit}"))) for name, value, unit in tiles),
        class_="tiles",
    )


def _warnings(data: RunData) -> Markup | None:
    if not data.warnings:
        return None
    lines = [tag("li", text, tag("small", f" (step {step:,})")) for step, text in data.warnings]
    return _fold(f"Warnings ({len(lines)})", tag("ul", *lines, class_="warnings"))


def _which(data: RunData, views: Sequence[ComparedView]) -> str:
    number = views[0].num_ranked if views else 0
    which = "Held-out views" if data.config.eval else "Training views (--eval holds views out)"
    if number > len(views):
        order = f": the worst and the best of {number}"
    else:
        order = ", worst first" if number else ""
    flip = ", low FLIP" if any(view.score.flip is not None for view in views) else ""
    return f"{which}{order}. Drag across a picture to compare. High PSNR and SSIM{flip}: both look alike."


def _map(data: RunData, splats: SplatArrays | None, stops: Mapping[str, int]) -> Markup | None:
    views = data.run.views("all")
    if not splats or not len(splats) or not views:
        return None
    held_out = frozenset(view.name for view in data.run.views("test")) if data.config.eval else frozenset()
    keys = [tag("span", "trained on", class_="key trained")]
    keys += [tag("span", "held out", class_="key held-out")] if held_out else []
    return tag("figure", tag("figcaption", *keys), camera_map(splats, views, held_out, stops), class_="map")


def _time(data: RunData) -> Markup | None:
    if not data.phases:
        return None
    total = sum(data.phases.values())
    rows = [
        tag(
            "tr",
            tag("th", phase),
            tag("td", tag("i", style=f"width: {seconds / total:.2%}")),
            tag("td", duration(seconds)),
            tag("td", f"{seconds / total:.0%}" if seconds > 0.005 * total else "<1%"),
        )
        for phase, seconds in sorted(data.phases.items(), key=lambda item: -item[1])
    ]
    last = tag("tr", tag("th", "total"), tag("td"), tag("td", duration(total)), tag("td"))
    return _fold("Time by phase", tag("table", *rows, last, class_="phases"))


def _trials(data: RunData) -> Markup | None:
    """Scores of each trial run, and the settings that they chose."""
    if not data.trials:
        return None
    rows = []
    for trial in data.trials["trials"]:
        options = f", {given}" if (given := trial_options(trial)) else ""
        ssim = f", SSIM {trial['ssim']:.3f}" if "ssim" in trial else ""
        score = tag("td", f"{trial['psnr']:.2f} dB{ssim}")
        rows.append(tag("tr", tag("th", f"{trial['steps']:,} steps{options}"), score))
    chosen = as_options(data.trials["chosen"])
    rows.append(tag("tr", tag("th", "chosen for this run"), tag("td", chosen)))
    note = "Scores of training photographs that short runs on small photographs left out."
    return _fold("Trial runs", tag("table", *rows), note)


def _settings(data: RunData) -> Markup:
    """Settings that differ from the defaults, then the others, collapsed."""
    changed = changed_settings(data.config)
    rows: dict[bool, list[Markup]] = {True: [], False: []}
    for name, declared in SETTINGS.items():
        value = tag("td", declared.show(getattr(data.config, name)))
        usual = "derived" if declared.default is None else declared.show(declared.default)
        default = tag("td", f"default: {usual}") if name in changed else None
        rows[name in changed].append(tag("tr", tag("th", tag("code", declared.option)), value, default))
    first = tag("table", *rows[True]) if changed else tag("p", "All settings have their default values.")
    summary = tag("summary", f"{len(rows[False])} settings with default values")
    return join(first, tag("details", summary, tag("div", tag("table", *rows[False]), class_="columns")))


def _foot(data: RunData) -> Markup:
    scene = f"Scene: {data.provenance.get('scene', 'unknown')}. Run: {data.run.path.resolve()}."
    return tag("footer", tag("p", scene), _protocol(data.protocol) if data.protocol else None)


def _protocol(text: str) -> Markup:
    """The protocol of metrics.json as a list, with the page's names of measures for the keys of that file."""
    for key, name in _MEASURES.items():
        text = text.replace(key, name)
    return tag("details", tag("summary", "Evaluation protocol"), tag("ul", *(tag("li", p) for p in text.split("; "))))
