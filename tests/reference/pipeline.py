"""From parameters to the loss and back, with the reference of each pass. Also finite differences."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.reference import blend, project, project_backward, ssim_loss
from tests.reference.inputs import Camera, Splats
from tests.reference.project import Options, Projected
from tests.reference.random_scene import Scene

Array = np.ndarray


@dataclass(frozen=True)
class Rendered:
    projected: Projected
    flat: blend.Flat
    blended: blend.Blended


@dataclass(frozen=True)
class Gradients:
    splats: Splats
    w2c: Array  # [3, 4]
    background: Array  # [3]
    projected: project_backward.ProjectedGradients
    abs_means2d: Array  # [N, 2]


def render(splats: Splats, camera: Camera, background: Array, options: Options) -> Rendered:
    projected = project.forward(splats, camera, options)
    flat = projected.flat()
    return Rendered(projected, flat, blend.forward(flat, background, camera.width, camera.height))


def render_backward(
    splats: Splats, camera: Camera, background: Array, options: Options, rendered: Rendered, d_image: Array
) -> Gradients:
    d_flat = blend.backward(rendered.flat, background, rendered.blended, d_image)
    by_splat = rendered.projected.by_splat

    d_projected = project_backward.ProjectedGradients(
        by_splat(d_flat.means2d), by_splat(d_flat.conics), by_splat(d_flat.opacities), by_splat(d_flat.colors)
    )
    d_splats, d_w2c = project_backward.backward(splats, camera, options, rendered.projected, d_projected)
    return Gradients(d_splats, d_w2c, d_flat.background, d_projected, by_splat(d_flat.abs_means2d))


def loss(scene: Scene, options: Options, ssim_weight: float, mask: Array | None = None) -> float:
    rendered = render(scene.splats, scene.camera, scene.background, options)
    return ssim_loss.loss(rendered.blended.image, scene.photograph, ssim_weight, mask).value


def loss_and_gradients(
    scene: Scene, options: Options, ssim_weight: float, mask: Array | None = None
) -> tuple[float, Gradients]:
    view = scene.splats, scene.camera, scene.background, options
    rendered = render(*view)
    result = ssim_loss.loss(rendered.blended.image, scene.photograph, ssim_weight, mask)
    return result.value, render_backward(*view, rendered, result.d_image)


def central_difference(function: Callable[[Array], float], at: Array, direction: Array, step: float = 1e-6) -> float:
    """The slope of `function` at `at` along `direction` (same shape)."""
    return (function(at + step * direction) - function(at - step * direction)) / (2 * step)
