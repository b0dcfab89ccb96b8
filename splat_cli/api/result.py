"""Result of training for programs: splats to render, compare with photographs, evaluate and save; rendered images."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from splat_cli.config import TrainConfig
from splat_cli.errors import UsageError
from splat_cli.eval.evaluate import TrainedModel, evaluate
from splat_cli.eval.metrics import Score, mean_score, side_by_side
from splat_cli.field.bake_sh import bake_field
from splat_cli.field.coloring import FieldColoring
from splat_cli.field.parameters import Parameters
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.formats import format_for, write_splats
from splat_cli.gaussians.ply import finite_splats, read_ply
from splat_cli.io.color import color_of
from splat_cli.io.files import replacing
from splat_cli.render.bake_antialiasing import bake_antialiasing
from splat_cli.render.images import background_color
from splat_cli.render.view import render_image
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.crop import parse_crop
from splat_cli.scene.georeferenced import relative_crop
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.view import View


@dataclass(frozen=True, eq=False)
class RenderedImage:
    """A picture: `pixels` is uint8 [H, W, 3]. NumPy takes it as an array, and a notebook shows it.

    image = result.render(0)
    image.pixels.shape                  # (144, 192, 3)
    image.save("view.png")
    """

    pixels: np.ndarray

    def save(self, path: str | Path) -> None:
        """Write the picture to a file; its suffix chooses the format: .png, .jpg, .webp, ...

        UsageError for an unknown suffix.
        """
        path = Path(path)
        kind = Image.registered_extensions().get(path.suffix.lower())
        if kind is None:
            raise UsageError(f"{path} is not a name for a picture: expected one that ends in .png, .jpg or .webp")
        with replacing(path) as temporary:
            Image.fromarray(self.pixels).save(temporary, format=kind)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.pixels, dtype) if copy else np.asarray(self.pixels, dtype)

    def __repr__(self) -> str:
        height, width = self.pixels.shape[:2]
        return f"RenderedImage({width}x{height})"

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        Image.fromarray(self.pixels).save(file, format="PNG")
        return file.getvalue()


@dataclass(frozen=True)
class Scores:
    """Quality on held-out photographs: scores by name, and their mean.

    scores = result.evaluate()
    scores.mean.psnr, scores.mean.ssim
    min(scores.per_image, key=lambda name: scores.per_image[name].psnr)         # the worst view
    """

    per_image: dict[str, Score]

    @cached_property
    def mean(self) -> Score:
        """The mean over photographs of each measure."""
        return mean_score(self.per_image.values())

    def __str__(self) -> str:
        return f"PSNR {self.mean.psnr:.2f} dB, SSIM {self.mean.ssim:.4f} over {len(self.per_image)} photographs"


@dataclass(eq=False)
class TrainedScene:
    """Trained splats and the cameras around them, from `train_scene` or `open_run`. A notebook shows a picture of them.

        result = splat.train_scene("scenes/garden", steps=7000, eval=True)
        result.splats.means                                 # float32 [N, 3]
        result.render("DSC_0042.jpg").save("view.png")
        result.compare(0)                                   # photograph, render, error map
        print(result.evaluate())                            # PSNR 27.41 dB, SSIM 0.8644 over 24 photographs
        result.save("garden.spz")

    config: training settings. steps: number of training steps done. views: all cameras of the scene, refined with
    pose_opt. held_out: the views that were not trained on. path: the run's folder, None in memory.
    origin: offset that was subtracted from geographic coordinates, otherwise zeros (docs/datasets.md).
    """

    config: TrainConfig
    steps: int
    views: list[View]
    held_out: list[View]
    path: Path | None
    origin: tuple[float, float, float]
    _model: TrainedModel
    _load_held_out: Callable[[], ImageSet | None]

    @property
    def background(self) -> tuple[float, float, float]:
        """Background colour of renders, RGB, 0 to 1: learned, from the settings, or the mean of the photographs."""
        return self._model.background or background_color(self.config.background)

    @cached_property
    def splats(self) -> SplatArrays:
        """The finite splats as NumPy arrays, as trained; a colour field is converted to harmonics."""
        field = self._model.field
        if field is not None and self.path is not None:  # converted and fine-tuned when it was saved
            splats = read_ply(RunDir(self.path).ply_path(self.steps))
        else:
            splats = finite_splats(self._model.splats.to_arrays())
        splats = dataclasses.replace(splats, antialiased=self.config.antialias, origin=self.origin)
        if field is None or self.path is not None:
            return splats
        return bake_field(field, splats, self._trained_views, self.config.sh_degree).splats

    def render(self, view: View | str | int = 0, background: str | Sequence[float] | None = None) -> RenderedImage:
        """The picture of the splats from a camera: any `View`, or one of `views` by its name or number.

        result.render(0)
        camera = dataclasses.replace(result.views[0], width=1920, height=1080, cx=960, cy=540)
        result.render(camera, background=(1, 1, 1))         # or "white", as for `splat render`
        """
        view = find_view(self.views, view)
        colors = self.background if background is None else color_of(background)
        is_novel = all(view is not known for known in (*self.views, *self.held_out))
        splats, antialias = self._model.splats, self.config.antialias
        return RenderedImage(render_image(splats, view, colors, antialias, self._coloring(), is_novel))

    def compare(self, view: str | int = 0) -> RenderedImage:
        """A held-out photograph, the render of its camera and their error map, side by side.

        view: a number in `held_out`, or a name.
        """
        photographs = self._photographs
        found = find_view(self.held_out, view)
        index = [view.name for view in photographs.views].index(found.name)
        rendered = self.render(found).pixels
        return RenderedImage(side_by_side(rendered, photographs.images[index], photographs.masks[index]))

    def evaluate(self) -> Scores:
        """PSNR and SSIM on the held-out photographs, as `splat eval` measures them. UsageError if there are none."""
        return Scores(evaluate(self._model, self._photographs, self.config))

    def save(self, path: str | Path) -> None:
        """Write the splats for viewers; the suffix determines the format (docs/formats.md).

            result.save("garden.ply")

        As `splat export` does: inside of the region of the setting `crop`, with sizes and opacities adapted to viewers
        without antialiasing. UsageError for an unknown suffix.
        """
        format_for(Path(path))  # before long work
        splats, backend = self.splats, self._model.splats.backend
        if self.config.crop is not None:
            region = relative_crop(parse_crop(self.config.crop), np.array(self.origin))
            splats = splats.select(region.contains(splats.means))
            if not len(splats):
                raise UsageError(f"no splat is inside of crop={self.config.crop!r}: choose a larger region")
        views = self._trained_views
        write_splats(path, bake_antialiasing(backend, splats, views) if splats.antialiased else splats)

    @property
    def _trained_views(self) -> list[View]:
        held_out = {view.name for view in self.held_out}
        return [view for view in self.views if view.name not in held_out]

    @cached_property
    def _photographs(self) -> ImageSet:
        found = self._load_held_out() if self.held_out else None
        if found is None:
            raise UsageError("no photographs were held out to compare with: train with eval=True")
        return found

    def _coloring(self) -> FieldColoring | None:
        """The colour field in the mean appearance of all photographs."""
        field = self._model.field
        if field is None:
            return None
        mean = field.embedding_rows().mean(axis=0, keepdims=True)
        return FieldColoring(field, Parameters(self._model.splats.backend, mean))

    def __repr__(self) -> str:
        where = f", {self.path}" if self.path else ""
        views = f"{len(self.views)} views, {len(self.held_out)} held out"
        return f"TrainedScene({self._model.splats.num:,} splats, {self.steps:,} steps, {views}{where})"

    def _repr_png_(self) -> bytes:
        return self.render((self.held_out or self.views)[0])._repr_png_()


Result = TrainedScene
"""Earlier name of TrainedScene."""


def find_view(views: Sequence[View], which: View | str | int) -> View:
    """The view itself, or one of `views` by its name or number. Raises UsageError."""
    if isinstance(which, View):
        return which
    if isinstance(which, Integral) and -len(views) <= which < len(views):
        return views[int(which)]
    named = [view for view in views if view.name == which]
    if not named:
        names = f" and names such as {views[0].name}" if views else ""
        raise UsageError(f"there is no view {which!r}: expected numbers under {len(views)}{names}")
    return named[0]
