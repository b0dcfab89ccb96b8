"""Evaluation of splats on a set of images: render each view and compare it with its photograph."""

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.errors import SceneError
from splat_cli.eval.color_correction import fit_color_on_left_half
from splat_cli.eval.embedding_fit import fit_held_out_embeddings, half, has_appearances
from splat_cli.eval.metrics import Score, score
from splat_cli.field.color_field import ColorField
from splat_cli.gaussians.splats import Splats
from splat_cli.optim.appearance.camera_response import CameraResponse
from splat_cli.render.pictures import background_color, to_8bit
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.images.image_set import ImageSet


def evaluate(
    backend: Backend,
    splats: Splats,
    photographs: ImageSet,
    config: TrainConfig,
    on_render: Callable[[int, np.ndarray], object] = lambda index, render: None,
    with_flip: bool = False,
    field: ColorField | None = None,
    background: tuple[float, float, float] | None = None,
    responses: Mapping[int, CameraResponse] = MappingProxyType({}),
) -> dict[str, Score]:
    """Scores of renders against their photographs, by name; background and antialiasing as in training.

    on_render: called with number and picture, uint8 [H, W, 3], of each view. field: colours the splats. background:
    learned colour. If training fitted the appearance of photographs, only right halves are compared.
    """
    background = background or background_color(config.background)
    coloring = fit_held_out_embeddings(splats, field, photographs, config, background) if field else None
    if has_appearances(config):
        photographs = half(photographs, right=True)
    renderer = ViewRenderer(backend, splats, photographs.views, config.antialias, coloring)
    mean_response = CameraResponse.mean(responses.values()) if responses else None
    scores = {}
    for index, view in enumerate(photographs.views):
        photograph, mask = photographs.images[index], photographs.masks[index]
        if mask is not None and not mask.any():  # damaged, as decoding has shown
            continue
        image = renderer.render(index, background)
        if mean_response:
            image = responses.get(view.camera_id, mean_response).apply(image)
        rendered = to_8bit(image)
        one = score(rendered, photograph, mask, with_flip)
        if config.appearance != "none":
            fitted = score(*fit_color_on_left_half(image, photograph, mask))
            one = dataclasses.replace(one, fitted_psnr=fitted.psnr, fitted_ssim=fitted.ssim)
        scores[view.name] = one
        on_render(index, rendered)
    if not scores:
        raise SceneError("none of the held-out photographs can be used; train without --eval, or correct the files")
    return scores
