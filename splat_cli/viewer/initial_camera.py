"""Initial camera of an exported page."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np

from splat_cli.errors import UsageError
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.ply import origin_of_file
from splat_cli.render.images import background_color
from splat_cli.run.storage.find_run import find_splats
from splat_cli.scene.cameras_json import read_cameras
from splat_cli.scene.poses import Similarity
from splat_cli.scene.trajectories.focus import UP, overview, up_direction
from splat_cli.scene.view import View, evenly_spread
from splat_cli.viewer.html import MAX_TOUR, NUM_STOPS, Stop, seen_points, write_html


@dataclass(frozen=True)
class InitialCamera:
    """views: cameras in the splats' coordinates, empty if unknown; start: initial camera, None for an overview.

    to_source: matrix [4, 4] from the splats' coordinates to those of their source, in which points are measured.
    is_tour: the views are a path that the user has saved, all of which the page visits.
    """

    views: list[View]
    start: View | None
    background: tuple[float, float, float]
    title: str
    to_source: np.ndarray = field(default_factory=lambda: np.eye(4))
    is_tour: bool = False

    def moved(self, by: Similarity) -> InitialCamera:
        """The cameras after a similarity transform of the splats."""
        start = self.start and by.apply(self.start)
        views = [by.apply(view) for view in self.views]
        return dataclasses.replace(self, views=views, start=start, to_source=self.to_source @ by.inverse)

    def write(self, path: Path, splats: SplatArrays) -> None:
        """Write the page. Its buttons go to the first view and others, in their order: NUM_STOPS from all over the
        scene, or all of a tour, through which its play button flies.
        """
        up = up_direction(self.views) if self.views else UP
        start = self.start or overview(splats.means)
        names = {view.name for view in evenly_spread(self.views, MAX_TOUR if self.is_tour else NUM_STOPS)}
        first = next((number for number, view in enumerate(self.views) if view.name == start.name), 0)
        others = [*self.views[first:], *self.views[:first]]
        stops = [Stop(start), *(Stop(view) for view in others if view.name in names - {start.name})]
        framed = seen_points(splats.means, self.views)
        write_html(path, splats, stops, up, self.background, self.title, framed, self.to_source, self.is_tour)


def find_initial_camera(sources: Sequence[Path], start: str | None) -> InitialCamera:
    """Cameras of the first run among `sources`, which are runs or files.

    start: name or number of a view of that run, or a JSON file of cameras: a tour from its first. UsageError.
    """
    runs = [run for _, run in map(find_splats, sources) if run is not None]
    views = runs[0].views("all") if runs else []
    background = runs[0].background() if runs else background_color("black")
    if start is None:
        view = views[0] if views else None
    elif start.lower().endswith(".json"):
        origin = runs[0].origin() if runs else np.array(origin_of_file(sources[0]))
        views = read_cameras(Path(start), origin)
        view = views[0]
    else:
        view = _named(views, start)
    first = sources[0].resolve()
    title = first.name if first.is_dir() else first.name.partition(".")[0]
    return InitialCamera(views, view, background, title, is_tour=start is not None and start.lower().endswith(".json"))


def _named(views: Sequence[View], wanted: str) -> View:
    if not views:
        raise UsageError(f"--start-view {wanted}: no source is a run with views; name a .json file of cameras")
    for name_of in (lambda name: name, lambda name: PurePosixPath(name).stem):
        named = [view for view in views if name_of(view.name) == wanted]
        if len(named) > 1:
            raise UsageError(f"--start-view {wanted}: {named[0].name} or {named[1].name}? Give the whole name")
        if named:
            return named[0]
    if wanted.isdecimal() and int(wanted) < len(views):
        return views[int(wanted)]
    last = len(views) - 1
    raise UsageError(f"--start-view {wanted}: expected 0 to {last} or a name such as {views[0].name}, or a .json file")
