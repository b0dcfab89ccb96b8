"""Implementation of `splat clean`: finds splats that do not belong to a scene, shows them, and writes the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from splat_cli.device import Backend
from splat_cli.errors import SceneError, UsageError
from splat_cli.eval.cleaning import Photographed, Reason, reasons_by_shape, reasons_by_views
from splat_cli.eval.evaluate import TrainedModel, evaluate
from splat_cli.eval.metrics import mean_score
from splat_cli.gaussians.arrays import SH_C0, SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.images import save_png, to_8bit
from splat_cli.render.view import ViewRenderer
from splat_cli.run.storage.load_run import (
    inside_crop,
    load_run_images,
    load_trained_splats,
    read_run_scene,
    warn_of_earlier_step,
)
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.extent import viewing_distance
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.trajectories.focus import look_at, overview, up_direction
from splat_cli.scene.view import View, evenly_spread
from splat_cli.terminal.console import Display

_MEASURED = 32
"""Number of training photographs on which the loss due to floaters is measured. A veil costs few photographs much, and
the others nothing: the means of eight photographs differ by three times (docs/experiments/rendering.md, "Floaters that
photographs need").
"""
_HIGHLIGHT = (1.0, 0.0, 1.0)
_DISTANCE = 2.2
"""Distance of the outside view from the middle of the scene, relative to its radius."""
_ELEVATION = np.radians(35)


@dataclass(frozen=True)
class Cleaning:
    """Splats as trained, the run that they come from, if any, and the reason to remove each: `Reason` int8 [N]."""

    splats: SplatArrays
    run: RunDir | None
    reasons: np.ndarray

    def kept(self) -> SplatArrays:
        """The splats that stay."""
        return self.splats.select(self.reasons == Reason.NONE)

    def exported(self) -> SplatArrays:
        """The splats that stay, inside of the region that the run exports (--crop)."""
        kept = self.kept()
        return kept if self.run is None else kept.select(inside_crop(kept.means, self.run))

    def highlighted(self) -> SplatArrays:
        """All splats; those to remove are magenta, and opaque enough to be seen."""
        goes, splats = self.reasons != Reason.NONE, self.splats
        magenta = ((np.array(_HIGHLIGHT) - 0.5) / SH_C0).astype(np.float32)
        return dataclasses.replace(
            splats,
            sh0=np.where(goes[:, None], magenta, splats.sh0),
            shN=np.where(goes[:, None, None], np.float32(0), splats.shN),
            logit_opacities=np.where(goes, np.maximum(splats.logit_opacities, 0), splats.logit_opacities),
        )

    def counts(self) -> dict[str, int]:
        """Number of splats to remove for each reason, by its name in lower case."""
        return {reason.name.lower(): int((self.reasons == reason).sum()) for reason in Reason if reason != Reason.NONE}


def find_cleaning(source: Path, strength: float, scene: Path | None, backend: Backend, display: Display) -> Cleaning:
    """The splats of a run or a file, and which of them to remove. UsageError if no splat would be left."""
    splats, run = load_trained_splats(source)
    warn_of_earlier_step(source, display)
    for note in splats.reading_notes(source):
        display.warn(note)
    cleaning = Cleaning(splats, run, find_reasons(splats, run, strength, scene, backend, display))
    if len(splats) and not (cleaning.reasons == Reason.NONE).any():
        raise UsageError(f"none of the {len(splats):,} splats would be left: lower --strength")
    return cleaning


def find_reasons(
    splats: SplatArrays, run: RunDir | None, strength: float, scene: Path | None, backend: Backend, display: Display
) -> np.ndarray:
    """Reasons to remove splats: `Reason` int8 [N]. With a run by its views and photographs, otherwise by shape.

    scene: folder of the photographs, by default as in training; warns if they are missing.
    """
    if run is None:
        return reasons_by_shape(splats, strength)
    views, seen = run.views("train"), _photographed(run, scene, backend, display)
    with display.counting("views", len(views)) as count:
        return reasons_by_views(backend, splats, views, seen, strength, count)


def _photographed(run: RunDir, scene: Path | None, backend: Backend, display: Display) -> Photographed | None:
    """Training photographs and points of a run; None, with a warning, if they are missing."""
    try:
        found = read_run_scene(run, scene)
        if len(found.points):
            photographs = load_run_images(run, run.views("train"), found, backend, display)
            some = _some(photographs, _MEASURED)
            return Photographed(
                photographs, found.points, found.colors, lambda splats: _psnr(run, some, splats, backend)
            )
        reason = "the scene has no points"
    except SceneError as error:
        reason = str(error)
    display.warn(f"not looking for floaters in front of what photographs show: {reason}")
    return None


def held_out_psnr(
    cleaning: Cleaning, scene: Path | None, backend: Backend, display: Display
) -> tuple[float, float] | None:
    """PSNR on held-out photographs before and after, dB; None without a run, or without such photographs."""
    run = cleaning.run
    if run is None or not run.config().eval:
        return None
    try:
        photographs = load_run_images(run, run.views("test"), scene, backend, display)
    except SceneError:
        return None
    return _psnr(run, photographs, cleaning.splats, backend), _psnr(run, photographs, cleaning.kept(), backend)


def _psnr(run: RunDir, photographs: ImageSet, splats: SplatArrays, backend: Backend) -> float:
    """Mean PSNR over photographs, dB, by the protocol of `splat eval`; a colour field is left out."""
    model = TrainedModel(Splats.from_arrays(backend, splats), None, run.background(), run.responses())
    return mean_score(evaluate(model, photographs, run.config()).values()).psnr


def _some(photographs: ImageSet, count: int) -> ImageSet:
    """At most `count` evenly spread photographs."""
    chosen = evenly_spread(range(len(photographs.views)), count)
    return photographs._replace(
        views=[photographs.views[i] for i in chosen],
        images=[photographs.images[i] for i in chosen],
        masks=[photographs.masks[i] for i in chosen],
    )


def save_outside_pictures(path: Path, cleaning: Cleaning, backend: Backend) -> None:
    """Write a PNG of three pictures from outside of the cameras' path: before, splats to remove in magenta, after."""
    run, splats = cleaning.run, cleaning.splats
    view = outside_view(run.views("all"), splats.means) if run else overview(splats.means)
    background = run.background() if run else (0.0, 0.0, 0.0)
    pictures = []
    for some in (splats, cleaning.highlighted(), cleaning.kept()):
        uploaded = Splats.from_arrays(backend, some)
        renderer = ViewRenderer(backend, uploaded, [view], some.antialiased, novel_views=True)
        pictures.append(to_8bit(renderer.render(0, background)))
    save_png(path, np.concatenate(pictures, axis=1))


def outside_view(views: Sequence[View], means: np.ndarray) -> View:
    """A camera that sees all cameras and the surfaces in front of them, from above and behind the first camera."""
    up, centers = up_direction(views), np.array([view.center for view in views])
    ahead = viewing_distance(views, means) * np.array([view.w2c[2, :3] for view in views])
    points = np.concatenate([centers, centers + ahead])
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    radius = float(np.linalg.norm(points - middle, axis=1).max())
    back = views[0].center - middle
    back -= (back @ up) * up
    length = float(np.linalg.norm(back))
    back = back / length if length > 1e-6 * radius else -views[0].w2c[2, :3]
    position = middle + _DISTANCE * radius * (np.cos(_ELEVATION) * back + np.sin(_ELEVATION) * up)
    return dataclasses.replace(overview(means), w2c=look_at(position, middle, up))
