"""Contributions of splats, compared with the float64 reference and with renders without a splat."""

import numpy as np

from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.blend import blend_scores
from splat_cli.render.view import contributions
from tests.compare import Comparison
from tests.noise_trainer import noise_trainer
from tests.reference import blend, project
from tests.reference.project import Options
from tests.reference.random_scene import Scene
from tests.render.on_device import view_of
from tests.views import render_view, ring_of_views


def test_contributions(comparison: Comparison, backend: Backend, scene: Scene, options: Options) -> None:
    """A splat's contribution is the sum of its blending weights over all pixels."""
    arrays = {name: values.astype(np.float32) for name, values in scene.splats.items()}
    splats = SplatArrays(**arrays, antialiased=options.antialias)
    actual = contributions(backend, splats, [view_of(scene.camera)])
    projected = project.forward(scene.splats, scene.camera, options)
    blended = blend.forward(projected.flat(), np.zeros(3), scene.camera.width, scene.camera.height)
    before = np.concatenate([np.ones_like(blended.alphas[:1]), np.cumprod(1 - blended.alphas, axis=0)[:-1]])
    expected = np.zeros(len(splats))
    expected[projected.splat_from_flat()] = (before * blended.alphas).sum(axis=(1, 2))
    comparison.check("blend_scores", "contributions", actual, expected, 1e-2)  # a pixel may cross a threshold


def test_splats_without_contribution_can_be_removed(backend: Backend) -> None:
    """A splat behind a wall, and one outside all views."""
    rng = np.random.default_rng(0)
    means = np.array([[0, 0, 0], [0.1, 0, 0], [0, 50, 0]], np.float32)
    splats = SplatArrays(
        means,
        np.log([[0.5] * 3, [0.01] * 3, [0.01] * 3]).astype(np.float32),
        rng.normal(size=(3, 4)).astype(np.float32),
        np.full(3, 9, np.float32),
        rng.normal(size=(3, 3)).astype(np.float32),
        np.zeros((3, 0, 3), np.float32),
    )
    front = ring_of_views(12)[6]  # looks along +x: the first splat hides the second
    found = contributions(backend, splats, [front])
    assert found[0] > 10
    assert found[1] < 0.05  # the first splat transmits 1 %
    assert found[2] == 0
    pictures = [
        render_view(backend, Splats.from_arrays(backend, some), front) for some in (splats, splats.select(found > 1))
    ]
    np.testing.assert_allclose(*pictures, atol=0.02)


def test_no_splats_contribute_nothing(backend: Backend) -> None:
    empty = SplatArrays(*(np.zeros((0, *shape), np.float32) for shape in ((3,), (3,), (4,), (), (3,), (0, 3))))
    assert contributions(backend, empty, ring_of_views(1)).shape == (0,)


def test_scores_by_segments_equal_scores_by_tiles(backend: Backend) -> None:
    trainer = noise_trainer(backend, 8000)
    raster, state, xp = trainer.rasterizer, trainer.state, backend.xp
    state.write(view=1, segments_in_bins=[0] * 4)
    raster.forward(trainer.splats, state)
    rendered = raster.rendered
    sums, by_segments = (xp.zeros((trainer.splats.capacity, 2), "float32") for _ in range(2))
    errors = backend.upload(np.random.default_rng(0).random(rendered.image.shape, np.float32))
    for by, scores in enumerate((sums, by_segments)):
        arrays = raster.cameras, state, raster.projection, raster.tiles, rendered, errors, scores
        blend_scores(*arrays, by_segments=bool(by))
    view = raster.cameras.current_views[1]
    assert state.read()["segments_in_bins"].sum() > 2 * view.width * view.height / 256  # long lists
    expected, got = backend.download(sums), backend.download(by_segments)
    assert (expected > 0.01).sum() > 1000
    shown = 1 - backend.download(rendered.final_T)[: view.width * view.height]
    error = backend.download(errors).reshape(-1)[: 3 * len(shown)].reshape(3, -1).mean(axis=0)
    np.testing.assert_allclose(expected.sum(axis=0), [shown.sum(), (shown * error).sum()], rtol=1e-4)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
