"""Evaluation: renders each view, corrects its colours if asked to, and compares it with its photograph; and floaters.

Floaters are measured as opacity in free space. A camera sees a point of the dataset along a ray, so the ray is free
until shortly before the point. Opacity accumulated there, by splats with centres within the first 80 % of the depth,
comes from floaters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend, DeviceArray
from splat_cli.device.host import num_cores
from splat_cli.errors import SceneError
from splat_cli.eval.held_out_fit import fit_held_out_embeddings, fit_held_out_poses, half, half_mask, has_appearances
from splat_cli.eval.metrics import Lpips, PictureScorer, Score, flip
from splat_cli.field.color_field import ColorField
from splat_cli.gaussians.splats import Splats
from splat_cli.joint.appearance.camera_response import CameraResponse
from splat_cli.joint.depth.free_space import FreeSpaceRays
from splat_cli.processes.threads import run_in_threads
from splat_cli.render.images import background_color, to_8bit
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.extent import scene_extent
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.points.observations import observe
from splat_cli.scene.view import View, evenly_spread


@dataclass(frozen=True)
class TrainedModel:
    """Input of an evaluation. field: colours the splats, or None. background: RGB, 0 to 1; None: from the settings.

    responses: vignetting and response by camera id, with --appearance camera; applied only by evaluation.
    """

    splats: Splats
    field: ColorField | None = None
    background: tuple[float, float, float] | None = None
    responses: Mapping[int, CameraResponse] = dataclasses.field(default_factory=dict)


def fit_color_on_left_half(
    render: np.ndarray, photograph: np.ndarray, mask: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Right halves of the colour-corrected render, the photograph and the mask (or None).

    The correction is an affine map fitted to the left halves by least squares, as embeddings are in NeRF in the Wild
    (Martin-Brualla et al. 2021, sec. 5). render: float32 [H, W, 3]; the result and the photograph are uint8. If the
    mask excludes the whole right half, the full images are returned, without correction.
    """
    half = render.shape[1] // 2
    kept = np.ones(render.shape[:2], bool) if mask is None else mask > 0
    if not kept[:, half:].any():
        return to_8bit(render), photograph, mask
    left = kept[:, :half]
    render = np.nan_to_num(render, posinf=1.0, neginf=0.0)  # of a model that has diverged
    colors = np.column_stack([render[:, :half][left], np.ones(left.sum())]).astype(np.float64)
    difference = np.linalg.lstsq(colors, photograph[:, :half][left] / 255 - colors[:, :3], rcond=None)[0]  # [4, 3]
    right = render[:, half:]
    fitted = right + right @ difference[:3] + difference[3]
    return to_8bit(fitted), photograph[:, half:], None if mask is None else mask[:, half:]


DECODED_AHEAD = 8  # photographs
_Photograph = tuple[np.ndarray, np.ndarray | None]


def evaluate(
    model: TrainedModel,
    photographs: ImageSet,
    config: TrainConfig,
    *,
    on_render: Callable[[int, np.ndarray], object] = lambda index, render: None,
    with_flip: bool = False,
    lpips: Lpips | None = None,
) -> dict[str, Score]:
    """Scores of renders against their photographs, by name; background and antialiasing as in training.

    on_render: called with number and render (uint8 [H, W, 3]) of each view. with_flip, lpips: also these. If training
    fitted the appearance of photographs, only right halves are compared. If it refined poses, right halves are also
    scored at the poses that fit left halves. SceneError if no photograph can be used.
    """
    splats, field, backend = model.splats, model.field, model.splats.backend
    background = model.background or background_color(config.background)
    coloring = fit_held_out_embeddings(splats, field, photographs, config, background) if field else None
    if has_appearances(config):
        photographs = half(photographs, right=True)
    at_own_poses = _AtOwnPoses(model, photographs, config, background) if config.pose_opt and not field else None
    renderer = ViewRenderer(backend, splats, photographs.views, config.antialias, coloring)
    mean_response = CameraResponse.mean(model.responses.values()) if model.responses else None
    scorer, scores = PictureScorer(backend), {}
    for index, (photograph, mask) in enumerate(decoded_ahead(photographs)):
        if mask is not None and not mask.any():  # the file is damaged
            continue
        view = photographs.views[index]
        planes = renderer.planes(index, background)
        if mean_response:
            planes = _with_response(backend, planes, model.responses.get(view.camera_id, mean_response))
        score = scorer.score(planes, photograph, mask)
        rendered = backend.download(scorer.rounded)
        measures = _perceptual(rendered, photograph, mask, with_flip, lpips)
        if config.has_appearance:
            fitted = _fitted_score(scorer, planes, photograph, mask)
            measures |= {"fitted_psnr": fitted.psnr, "fitted_ssim": fitted.ssim}
        if at_own_poses:
            own = at_own_poses.score(index, photograph, mask)
            measures |= {"pose_fitted_psnr": own.psnr, "pose_fitted_ssim": own.ssim}
        scores[view.name] = dataclasses.replace(score, **measures)
        on_render(index, rendered)
    if not scores:
        raise SceneError("none of the held-out photographs can be used; train without --eval, or correct the files")
    return scores


def _perceptual(
    rendered: np.ndarray, photograph: np.ndarray, mask: np.ndarray | None, with_flip: bool, lpips: Lpips | None
) -> dict[str, float]:
    """FLIP and LPIPS, those of them that are wanted."""
    measures = {"flip": flip(rendered, photograph, mask)} if with_flip else {}
    return measures | ({"lpips": lpips.score(rendered, photograph, mask)} if lpips else {})


class _AtOwnPoses:
    """Scores of right halves, rendered at the poses that fit left halves."""

    def __init__(
        self, model: TrainedModel, photographs: ImageSet, config: TrainConfig, background: Sequence[float]
    ) -> None:
        splats, extent = model.splats, scene_extent(photographs.views)
        views = fit_held_out_poses(splats, photographs, config, background, extent)
        self.renderer = ViewRenderer(splats.backend, splats, views, config.antialias)
        self.scorer, self.background = PictureScorer(splats.backend), background

    def score(self, index: int, photograph: np.ndarray, mask: np.ndarray | None) -> Score:
        """Score of the right half, or of all pixels if the mask excludes the whole right half."""
        right = half_mask(photograph, mask, right=True)
        return self.scorer.score(
            self.renderer.planes(index, self.background), photograph, right if right.any() else mask
        )


def _fitted_score(scorer: PictureScorer, planes: DeviceArray, photograph: np.ndarray, mask: np.ndarray | None) -> Score:
    """Score of the right half of a render after the colour correction fitted to the left half."""
    fitted, right, kept = fit_color_on_left_half(_downloaded(scorer.backend, planes), photograph, mask)
    return scorer.score(_uploaded(scorer.backend, fitted / np.float32(255)), right, kept)


def _with_response(backend: Backend, planes: DeviceArray, response: CameraResponse) -> DeviceArray:
    """The render with vignetting and response of the camera applied."""
    return _uploaded(backend, response.apply(_downloaded(backend, planes)))


def _downloaded(backend: Backend, planes: DeviceArray) -> np.ndarray:
    """Planes float32 [3, H, W] on the device as an image [H, W, 3]."""
    return np.ascontiguousarray(backend.download(planes).transpose(1, 2, 0))


def _uploaded(backend: Backend, image: np.ndarray) -> DeviceArray:
    """An image float32 [H, W, 3] as planes [3, H, W] on the device."""
    return backend.upload(np.ascontiguousarray(image.transpose(2, 0, 1)))


def decoded_ahead(photographs: ImageSet) -> Iterator[_Photograph]:
    """All photographs with their masks. If a set decodes on access, threads decode the next ones."""

    def decode(index: int) -> _Photograph:
        return photographs.images[index], photographs.masks[index]

    calls = (partial(decode, index) for index in range(len(photographs.views)))
    return run_in_threads(calls, min(num_cores(), DECODED_AHEAD))


HIDDEN = 0.1  # a point counts as hidden if the opacity in front of it is larger
MAX_VIEWS = 8  # number of measured views, evenly spread


@dataclass(frozen=True)
class FreeSpace:
    """Statistics of `num_rays` rays to points: fraction of hidden points, mean opacity in free space, 0 to 1."""

    hidden: float
    opacity: float
    num_rays: int


def free_space_metrics(
    backend: Backend, splats: Splats, views: Mapping[str, Sequence[View]], points: np.ndarray, antialias: bool
) -> dict[str, float]:
    """Results of `free_space` for sets of views, as entries of metrics.json; names of sets are suffixes of keys."""
    metrics: dict[str, float] = {}
    for name, some in views.items():
        if found := free_space(backend, splats, some, points, antialias):
            metrics |= {f"hidden_points{name}": found.hidden, f"opacity_before_points{name}": found.opacity}
    return metrics


def free_space(
    backend: Backend, splats: Splats, views: Sequence[View], points: np.ndarray, antialias: bool
) -> FreeSpace | None:
    """Opacity in front of the points [P, 3] that the views see; None if they see none."""
    views = evenly_spread(views, MAX_VIEWS)
    seen = observe(views, points)
    if not len(seen.pixels):
        return None
    renderer = ViewRenderer(backend, splats, views, antialias)
    rays, measured = FreeSpaceRays(backend, seen), None
    for index in range(len(views)):
        renderer.forward(index)
        measured = rays.opacities(renderer.state, renderer.rasterizer, out=measured)
    opacities = backend.download(measured)
    return FreeSpace(float(np.mean(opacities > HIDDEN)), float(np.mean(opacities)), len(opacities))
