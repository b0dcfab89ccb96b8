"""Alpha, depth and normals against the float64 reference, which blends these values instead of colours."""

import dataclasses

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.rendered_maps import MIN_ALPHA, render_maps, splat_normals
from splat_cli.render.view import ViewRenderer
from tests.compare import FORWARD, Comparison
from tests.reference import blend as reference
from tests.reference.project import Options, rotation_matrices
from tests.reference.random_scene import Scene
from tests.render.on_device import view_of
from tests.views import ring_of_views

DECIDED = 1e-3
"""Pixels closer than this to a threshold may be decided differently in float32."""


def renderer_of(backend, scene, options):
    arrays = SplatArrays(**{name: values.astype(np.float32) for name, values in scene.splats.items()})
    return ViewRenderer(backend, Splats.from_arrays(backend, arrays), [view_of(scene.camera)], options.antialias)


def flat_of(renderer):
    """The kernels' projection in the reference's format, and the splat of each row."""
    download, projection = renderer.backend.download, renderer.rasterizer.projection
    depths = download(projection.depths)[: renderer.splats.num].astype(np.float64)
    rows = np.flatnonzero(depths > 0)
    rows = rows[np.argsort(depths[rows], kind="stable")]
    shapes = download(projection.conic_opacity)[rows].astype(np.float64)
    means2d = download(projection.means2d)[rows].astype(np.float64)
    return reference.Flat(means2d, shapes[:, :3], shapes[:, 3], np.zeros((len(rows), 3))), rows


def blended(flat, values, camera):
    """The reference's sum of weight * value [H, W, 3], its alpha [H, W] and a mask of pixels far from thresholds."""
    flat = dataclasses.replace(flat, colors=values)
    result = reference.forward(flat, np.zeros(3), camera.width, camera.height)
    return result.image.transpose(1, 2, 0), 1 - result.transmittance, result.margin > DECIDED


def test_maps(comparison: Comparison, backend: Backend, scene: Scene, options: Options) -> None:
    renderer, camera = renderer_of(backend, scene, options), scene.camera
    frame = render_maps(renderer, 0, scene.background, {"alpha", "depth", "normal"})
    flat, rows = flat_of(renderer)

    positions = scene.splats.means[rows] @ camera.w2c[:3, :3].T + camera.w2c[:3, 3]
    total, alpha, decided = blended(flat, np.repeat(positions[:, 2:], 3, axis=1), camera)
    decided &= np.abs(alpha / MIN_ALPHA - 1) > 0.1
    comparison.check("maps", "alpha", frame.alpha[decided], alpha[decided], FORWARD)
    seen = decided & (alpha > MIN_ALPHA)
    comparison.check("maps", "depth", frame.depth[seen], total[seen, 0] / alpha[seen], FORWARD)
    assert not frame.depth[decided & (alpha < MIN_ALPHA)].any()

    units = scene.splats.quats / np.linalg.norm(scene.splats.quats, axis=1, keepdims=True)
    shortest = np.argmin(scene.splats.log_scales, axis=1)
    axes = rotation_matrices(units)[np.arange(len(units)), :, shortest][rows] @ camera.w2c[:3, :3].T
    axes *= np.where((axes * positions).sum(axis=1, keepdims=True) > 0, -1, 1)
    normal, _, _ = blended(flat, axes, camera)
    length = np.linalg.norm(normal, axis=-1)
    seen &= length > 1e-2  # opposite normals cancel
    comparison.check("maps", "normal", frame.normal[seen], normal[seen] / length[seen, None], 10 * FORWARD)
    assert seen.sum() > 100


def test_maps_do_not_change_the_image(backend: Backend, scene: Scene, options: Options) -> None:
    renderer = renderer_of(backend, scene, options)
    plain = render_maps(renderer, 0, scene.background)
    assert (plain.alpha, plain.depth, plain.normal) == (None, None, None)
    with_maps = render_maps(renderer, 0, scene.background, {"depth", "normal"})
    np.testing.assert_array_equal(with_maps.color, plain.color)
    np.testing.assert_array_equal(render_maps(renderer, 0, scene.background).color, plain.color)


@pytest.mark.parametrize("longest", range(3))
def test_distance_and_normal_of_a_disc(backend: Backend, longest: int) -> None:
    """A broad flat splat two units ahead and off the axis."""
    view = ring_of_views(1)[0]
    aim = np.array([0.5, 0.2, 2.0])
    center = view.w2c[:3, :3].T @ (aim - view.w2c[:3, 3])
    log_scales = np.full((1, 3), -1.0, np.float32)
    log_scales[0, longest] = -6
    disc = SplatArrays(
        center[None].astype(np.float32),
        log_scales,
        np.array([[0.9, 0.1, -0.3, 0.2]], np.float32),
        np.full(1, 6, np.float32),
        np.zeros((1, 3), np.float32),
        np.zeros((1, 0, 3), np.float32),
    )
    renderer = ViewRenderer(backend, Splats.from_arrays(backend, disc), [view])
    pixel = tuple(np.int64([view.fy * aim[1] / aim[2] + view.cy, view.fx * aim[0] / aim[2] + view.cx]))
    for distances, expected in ((False, 2.0), (True, np.linalg.norm(aim))):
        frame = render_maps(renderer, 0, maps={"depth", "normal"}, distances=distances)
        assert frame.depth[pixel] == pytest.approx(expected, rel=1e-5)
        assert frame.normal[pixel] @ aim < 0
    normals = backend.download(splat_normals(renderer.splats, view.w2c))
    np.testing.assert_allclose(frame.normal[pixel], normals[0], atol=1e-5)
