"""The page and its sections."""

from collections.abc import Sequence
from pathlib import Path
from string import Template

from splat_cli.config import SETTINGS
from splat_cli.config.presets import changed_settings
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.report.camera_map import camera_map
from splat_cli.report.comparison import comparison
from splat_cli.report.curves import curves, distributions, measured_views
from splat_cli.report.markup import Markup, join, tag
from splat_cli.report.numbers import compact, duration, size
from splat_cli.report.run_data import RunData
from splat_cli.report.views import ComparedView

_HERE = Path(__file__).parent
_NUM_WARNINGS = 5  # shown without a click


def page(data: RunData, splats: SplatArrays | None, views: Sequence[ComparedView]) -> str:
    """The HTML document, without external resources."""
    sections = [
        _head(data),
        _tiles(data, splats),
        _warnings(data),
        _section("Renders and photographs", comparison(views), _which(data, views)),
        _section("Training", curves(data)),
        _section("Splats", distributions(splats), "Number of splats by opacity and by size in world units.")
        if splats and len(splats)
        else None,
        _pair(_map(data, splats), _section("Evaluated views", measured_views(data)), _time(data)),
        _section("Settings", _settings(data)),
        _foot(data),
    ]
    parts = {name: (_HERE / f"page.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")}
    title = f"{_scene_name(data)}: report of training"
    return Template(parts["html"]).substitute(
        title=join(title), style=parts["css"], script=parts["js"], body=join(*sections)
    )


def _section(title: str, content: Markup | None, note: str | None = None) -> Markup | None:
    if not content:
        return None
    return tag("section", tag("h2", title), tag("p", note, class_="note") if note else None, content)


def _scene_name(data: RunData) -> str:
    return Path(data.provenance.get("scene", "")).name or data.run.path.resolve().name


def _head(data: RunData) -> Markup:
    done = "finished: " if data.is_finished else f"not finished: {data.step:,} of "
    look = "badge good" if data.is_finished else "badge bad"
    state = tag("span", f"{done}{data.config.num_steps:,} steps", class_=look)
    when = f"{data.when.day} {data.when:%B %Y, %H:%M}"
    details = [when, data.provenance.get("device"), f"splat {data.provenance.get('version', '')}"]
    return tag("header", tag("h1", _scene_name(data)), tag("p", state, " ", " · ".join(filter(None, details))))


def _tiles(data: RunData, splats: SplatArrays | None) -> Markup:
    """Key figures of the run."""
    measured, last = data.measured, data.figures[-1] if data.figures else {}
    tiles = []
    if measured:
        tiles += [
            (f"PSNR, {data.seen}", f"{measured['psnr']:.2f}", "dB"),
            (f"SSIM, {data.seen}", f"{measured['ssim']:.4f}", ""),
        ]
        if "fitted_psnr" in measured:
            tiles.append(("PSNR, colours fitted", f"{measured['fitted_psnr']:.2f}", "dB"))
        tiles += [(f"FLIP, {data.seen}", f"{measured['flip']:.4f}", "")] if "flip" in measured else []
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
    first, rest = lines[:_NUM_WARNINGS], lines[_NUM_WARNINGS:]
    more = tag("details", tag("summary", f"{len(rest)} more"), tag("ul", *rest)) if rest else None
    return tag("section", tag("h2", "Warnings"), tag("ul", *first), more, class_="warnings")


def _which(data: RunData, views: Sequence[ComparedView]) -> str:
    number = views[0].num_ranked if views else 0
    which = "Held-out views" if data.config.eval else "Training views (--eval holds views out)"
    if number > len(views):
        order = f": the worst and the best of {number}"
    else:
        order = ", worst first" if number else ""
    return f"{which}{order}. Drag across a picture to compare."


def _map(data: RunData, splats: SplatArrays | None) -> Markup | None:
    views = data.run.views("all")
    if not splats or not len(splats) or not views:
        return None
    held_out = frozenset(view.name for view in data.run.views("test")) if data.config.eval else frozenset()
    keys = [tag("span", "trained on", class_="key trained")]
    keys += [tag("span", "held out", class_="key held-out")] if held_out else []
    drawing = tag("figure", tag("figcaption", *keys), camera_map(splats, views, held_out), class_="map")
    return _section("Cameras from above", drawing)


def _pair(left: Markup | None, *right: Markup | None) -> Markup:
    return tag("div", tag("div", left) if left else None, tag("div", *right), class_="pair")


def _time(data: RunData) -> Markup | None:
    if not data.phases:
        return None
    total = sum(data.phases.values())
    rows = [
        tag("tr", tag("th", phase), tag("td", tag("i", style=f"width: {seconds / total:.2%}")),
            tag("td", duration(seconds)), tag("td", f"{seconds / total:.0%}" if seconds > 0.005 * total else "<1%"))
        for phase, seconds in sorted(data.phases.items(), key=lambda item: -item[1])
    ]  # fmt: skip
    last = tag("tr", tag("th", "total"), tag("td"), tag("td", duration(total)), tag("td"))
    return _section("Time by phase", tag("table", *rows, last, class_="phases"))


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
    return join(first, tag("details", summary, tag("table", *rows[False])))


def _foot(data: RunData) -> Markup:
    scene = f"Scene: {data.provenance.get('scene', 'unknown')}. Run: {data.run.path.resolve()}."
    protocol = tag("p", f"Evaluation protocol: {data.protocol}.") if data.protocol else None
    return tag("footer", protocol, tag("p", scene))
