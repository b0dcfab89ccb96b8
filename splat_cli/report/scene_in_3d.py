"""The scene in 3D at the top of a report: photographs to walk among, and as many splats as fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from splat_cli.device import Backend
from splat_cli.device.host import num_cores
from splat_cli.errors import SceneError
from splat_cli.eval.metrics import psnr
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.editing.edits import keep_largest
from splat_cli.gaussians.formats.sog import MAX_ENTRIES
from splat_cli.gaussians.splats import Splats
from splat_cli.processes.threads import run_in_threads
from splat_cli.render.view import contributions, render_image
from splat_cli.report.markup import Markup, join, jpeg, tag
from splat_cli.report.page import photograph_id
from splat_cli.report.run_data import ComparedView, RunData
from splat_cli.run.storage.load_run import load_run_images
from splat_cli.scene.trajectories.focus import up_direction
from splat_cli.scene.view import Scene, View, evenly_spread
from splat_cli.terminal.console import Display, Level
from splat_cli.viewer.html import MAX_TOUR, NUM_STOPS, Stop, seen_points, splats_in_3d

_MAX_SIDE, _MAX_BYTES = 800, 60_000  # of such a photograph
_NUM_VIEWS = 64  # to find the splats that contribute most
_NUM_COMPARED = 4  # to measure what fewer splats lose
_MARGIN = 0.97  # aims a little below the limit, so that one more attempt suffices
_FEWEST = 1000  # splats that are worth a picture
_BYTES_PER_SPLAT = 13.0  # in SOG, without the palette of view-dependent colours
_SPLATS_PER_ENTRY = 64  # maximum per entry of the palette; beyond it, splats are left out


def stops_of(
    data: RunData, compared: Sequence[ComparedView], scene: Path | Scene | None, backend: Backend
) -> list[Stop]:
    """All views, or many from all over the scene, in the order of the run.

    The first, the compared ones and a few others have their photographs; without any photographs, there are only these
    views. Photographs that are already in the page are not repeated. scene: see `load_run_images`.
    """
    views = data.run.views("all")
    in_page = {one.view.name: one for one in compared}
    names = {view.name for view in [*views[:1], *evenly_spread(views, NUM_STOPS)]} | set(in_page)
    photographs = {name: f"#{photograph_id(one)}" for name, one in in_page.items()}
    missing = [view for view in views if view.name in names - set(in_page)]
    photographs |= _photographs(data, missing, scene, backend)
    if photographs:
        names |= {view.name for view in evenly_spread(views, MAX_TOUR)}
    chosen = [view for view in views if view.name in names]
    held_out = {view.name for view in data.run.views("test")} if data.config.eval else set()
    for view in chosen:
        if view.distortion is not None:  # the page has pinhole cameras only
            photographs.pop(view.name, None)
    return [Stop(view, _remark(data, view, view.name in held_out), photographs.get(view.name)) for view in chosen]


def _photographs(data: RunData, views: Sequence[View], scene: Path | Scene | None, backend: Backend) -> dict[str, str]:
    """Small photographs as data URLs, by name; empty if they are missing."""
    try:
        found = load_run_images(data.run, views, scene, backend, Display(level=Level.QUIET, bar=False))
    except SceneError:
        return {}
    calls = (partial(jpeg, photograph, _MAX_SIDE, _MAX_BYTES) for photograph in found.images)
    return dict(zip((view.name for view in found.views), run_in_threads(calls, num_cores()), strict=True))


def _remark(data: RunData, view: View, held_out: bool) -> str:
    remark = "held out" if held_out else "trained on"
    score = data.measured.get("per_image", {}).get(view.name)
    return f"{remark}, PSNR {score['psnr']:.1f} dB" if score else remark


def scene_in_3d(
    data: RunData, splats: SplatArrays, stops: Sequence[Stop], backend: Backend, max_bytes: float
) -> Markup | None:
    """The splats of the run in about `max_bytes` of HTML, not more; None if hardly any would fit.

    If not all fit, view-dependent colours become coarser, and only the splats that contribute most are shown.
    """
    splats = dataclasses.replace(splats, antialiased=data.config.antialias)
    views = data.run.views("all")
    up, framed, background = up_direction(views), seen_points(splats.means, views), data.run.background()
    empty = splats_in_3d(splats.select(slice(0, 1)), stops, up, background, framed, embedded=True)
    room, strengths = max_bytes - len(empty.html), None
    aim = room
    while aim > 0:
        count, entries = _fitting(aim, splats)
        if count < min(_FEWEST, len(splats)):
            break
        if count < len(splats) and strengths is None:
            strengths = contributions(backend, splats, evenly_spread(data.run.views("train"), _NUM_VIEWS))
        shown = splats if strengths is None else keep_largest(splats, strengths, count)
        part = splats_in_3d(shown, stops, up, background, framed, embedded=True, max_entries=entries)
        if len(part.html) <= max_bytes:
            return join(Markup(part.html), _note(data, splats, shown, backend))
        aim *= _MARGIN * room / part.num_splat_bytes
    return None


def _fitting(room: float, splats: SplatArrays) -> tuple[int, int]:
    """(number of splats, entries of the palette) that are expected to fit into `room` bytes of base64."""
    room, num = 0.75 * room, len(splats)
    if splats.sh_degree == 0:
        return min(num, int(room / _BYTES_PER_SPLAT)), 1
    entry_bytes = 3 * splats.shN.shape[1]
    entries = min(MAX_ENTRIES, int((room - _BYTES_PER_SPLAT * num) / entry_bytes))
    if entries >= num / _SPLATS_PER_ENTRY:
        return num, entries
    count = min(num, int(room / (_BYTES_PER_SPLAT + entry_bytes / _SPLATS_PER_ENTRY)))
    return count, max(1, min(MAX_ENTRIES, count // _SPLATS_PER_ENTRY))


def _note(data: RunData, splats: SplatArrays, shown: SplatArrays, backend: Backend) -> Markup:
    """How to use the scene, and what is lost if the page lacks some splats."""
    note = (
        "Drag to look around. The buttons and arrow keys go to the next photograph, the slider lays it over the scene. "
        "Measure shows the distance of two points, in metres once you give the real length of one."
    )
    if len(shown) < len(splats):
        loss = _loss(data, splats, shown, backend)
        note += (
            f" To keep the page small, it has the {len(shown):,} of {len(splats):,} splats that contribute most: its "
            f"pictures have {loss:.0f} dB (PSNR) against those of all splats."
        )
    return tag("p", note, class_="note")


def _loss(data: RunData, splats: SplatArrays, shown: SplatArrays, backend: Backend) -> float:
    """Mean PSNR, in dB, of pictures of the splats that are shown against those of all splats."""
    pictures = []
    for arrays in (splats, shown):
        model = Splats.from_arrays(backend, arrays)
        pictures.append(
            [
                render_image(model, view, data.run.background(), splats.antialiased)
                for view in evenly_spread(data.run.views("all"), _NUM_COMPARED)
            ]
        )
    return float(np.mean([psnr(one, other) for one, other in zip(*pictures, strict=True)]))
