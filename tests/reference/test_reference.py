"""The references against central differences and against independent facts."""

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest

from tests.reference import adam, blend, pipeline, project, project_backward, sh, ssim_loss
from tests.reference.pipeline import central_difference
from tests.reference.project import Options
from tests.reference.random_scene import POISONS, Scene, distorted, hard_scene, poisons, without_ties

Array = np.ndarray


def assert_gradient(function: Callable[[Array], float], at: Array, gradient: Array, probes: int = 12) -> None:
    """Central differences along some coordinates, including the steepest, and along random directions."""
    rng = np.random.default_rng(0)
    assert gradient.shape == at.shape
    assert np.abs(gradient).max() > 0
    steepest = np.argsort(-np.abs(gradient), axis=None)[: probes // 3]
    for index in [*steepest, *rng.choice(at.size, probes // 3)]:
        direction = np.zeros(at.size)
        direction[index] = 1
        direction = direction.reshape(at.shape)
        expected = central_difference(function, at, direction)
        # Rounding error of the loss in a difference over 2e-6, and 1e-5 of the derivative.
        assert (gradient * direction).sum() == pytest.approx(expected, rel=1e-5, abs=1e-7 * np.abs(gradient).max())
    for _ in range(probes // 3):
        direction = rng.normal(size=at.shape) / np.sqrt(at.size)
        expected = central_difference(function, at, direction)
        scale = np.linalg.norm(gradient) * np.linalg.norm(direction)
        assert (gradient * direction).sum() == pytest.approx(expected, rel=1e-5, abs=1e-6 * scale)


@pytest.fixture(scope="module", params=["pinhole", "distorted"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return hard_scene(1, num=72) if request.param == "pinhole" else distorted(hard_scene(2, num=72))


def test_harmonics_are_orthonormal() -> None:
    heights, weights = np.polynomial.legendre.leggauss(8)
    angles = np.arange(16) * 2 * np.pi / 16
    z, angle = (grid.ravel() for grid in np.meshgrid(heights, angles, indexing="ij"))
    radius = np.sqrt(1 - z * z)
    values = sh.basis(np.column_stack([radius * np.cos(angle), radius * np.sin(angle), z]), 3)
    gram = np.einsum("p,pi,pj->ij", np.repeat(weights, 16) * 2 * np.pi / 16, values, values)
    np.testing.assert_allclose(gram, np.eye(16), atol=1e-12)


@pytest.mark.parametrize("degree", range(4))
def test_harmonics_backward(degree: int) -> None:
    rng = np.random.default_rng(degree)
    directions, d_values = rng.normal(size=(2, 9, 3))
    coefficients = rng.normal(size=(9, sh.num_bases(degree), 3))
    d_coefficients, d_directions = sh.backward(directions, coefficients, d_values)
    assert_gradient(lambda c: float((sh.forward(directions, c) * d_values).sum()), coefficients, d_coefficients)
    if degree > 0:
        assert_gradient(lambda d: float((sh.forward(d, coefficients) * d_values).sum()), directions, d_directions)


def project_loss(projected: project.Projected, weights: project_backward.ProjectedGradients) -> float:
    """A linear function of the projection; `weights` are its gradients with respect to the outputs."""
    return sum(float((getattr(projected, f.name) * getattr(weights, f.name)).sum()) for f in fields(weights))


@pytest.mark.parametrize("options", [Options(), Options(antialias=True), Options(sh_degree=1)], ids=str)
def test_project_backward(scene: Scene, options: Options) -> None:
    rng = np.random.default_rng(0)
    projected = project.forward(scene.splats, scene.camera, options)
    # Weights that give each splat a similar share of each output; otherwise conics of needles would dominate.
    names = [f.name for f in fields(project_backward.ProjectedGradients)]
    sizes = {name: getattr(projected, name) for name in names}
    weights = project_backward.ProjectedGradients(
        **{name: rng.normal(size=v.shape) / (0.1 + np.abs(v)) for name, v in sizes.items()}
    )
    gradients, d_w2c = project_backward.backward(scene.splats, scene.camera, options, projected, weights)

    for name, values in scene.splats.items():

        def function(moved: Array, name: str = name) -> float:
            return project_loss(project.forward(replace(scene.splats, **{name: moved}), scene.camera, options), weights)

        assert_gradient(function, values, getattr(gradients, name))

    def of_camera(rows: Array) -> float:
        camera = replace(scene.camera, w2c=np.vstack([rows, [0, 0, 0, 1]]))
        return project_loss(project.forward(scene.splats, camera, options), weights)

    assert_gradient(of_camera, scene.camera.w2c[:3], d_w2c)


def test_project_of_a_sphere_on_the_axis() -> None:
    """A sphere of radius s at depth z has the variance (f s / z)^2 in the image, plus the dilation."""
    scene = hard_scene(1)
    camera = replace(scene.camera, w2c=np.eye(4), fx=40.0, fy=40.0, cx=25.0, cy=20.0)
    splats = replace(scene.splats[:1], means=np.array([[0, 0, 2.0]]), log_scales=np.log([[0.1, 0.1, 0.1]]))
    projected = project.forward(splats, camera, Options())
    np.testing.assert_allclose(projected.means2d, [[25, 20]])
    np.testing.assert_allclose(projected.conics, [[1 / 4.3, 0, 1 / 4.3]], atol=1e-12)
    compensated = project.forward(splats, camera, Options(antialias=True))
    np.testing.assert_allclose(compensated.conics, [[1 / 4.1, 0, 1 / 4.1]], atol=1e-12)
    np.testing.assert_allclose(compensated.opacities, projected.opacities * 4 / 4.1)


def test_tiles_are_those_of_the_contributing_pixels(scene: Scene) -> None:
    """A splat's pixels are in its tiles, and each of its tiles has one if pixel centres are dense enough."""
    rendered = pipeline.render(scene.splats, scene.camera, scene.background, Options())
    projected, size = rendered.projected, (scene.camera.height, scene.camera.width)
    fractions = np.linspace(0, 1, 1001)
    for splat in projected.splat_from_flat():
        a, b, c = projected.conics[splat]
        for tile_y, tile_x in np.ndindex(projected.tiles.shape[1:]):
            top, left = 16 * tile_y, 16 * tile_x
            bottom, right = min(top + 16, size[0]), min(left + 16, size[1])
            dy = top + 0.5 + (bottom - top - 1) * fractions[:, None] - projected.means2d[splat, 1]
            dx = left + 0.5 + (right - left - 1) * fractions[::20] - projected.means2d[splat, 0]
            least = (a * dx**2 + 2 * b * dx * dy + c * dy**2).min()
            exact = projected.tile_slack[splat, tile_y, tile_x] + 2 * np.log(255 * projected.opacities[splat])
            assert exact <= least + 1e-9


def test_blend_backward(scene: Scene) -> None:
    flat = project.forward(scene.splats, scene.camera, Options()).flat()
    size = scene.camera.width, scene.camera.height
    blended = blend.forward(flat, scene.background, *size)
    # Pixels near a threshold jump if a parameter changes.
    d_image = np.random.default_rng(0).normal(size=(3, size[1], size[0])) * (blended.margin > 0.01)
    gradients = blend.backward(flat, scene.background, blended, d_image)
    for field in fields(flat):

        def function(moved: Array, name: str = field.name) -> float:
            image = blend.forward(replace(flat, **{name: moved}), scene.background, *size).image
            return float((image * d_image).sum())

        assert_gradient(function, getattr(flat, field.name), getattr(gradients, field.name))
    assert_gradient(
        lambda background: float((blend.forward(flat, background, *size).image * d_image).sum()),
        scene.background,
        gradients.background,
    )
    assert (gradients.abs_means2d >= np.abs(gradients.means2d)).all()


@pytest.mark.parametrize("masked", [False, True])
def test_loss_backward(scene: Scene, masked: bool) -> None:
    mask = scene.mask if masked else None
    image = np.random.default_rng(0).uniform(-0.2, 1.2, (3, *scene.mask.shape))
    result = ssim_loss.loss(image, scene.photograph, 0.2, mask)
    assert result.value == pytest.approx(0.8 * result.l1 + 0.2 * (1 - result.ssim))
    assert_gradient(
        lambda moved: ssim_loss.loss(moved, scene.photograph, 0.2, mask).value, image, result.d_image, probes=60
    )


def test_loss_of_equal_images_is_zero(scene: Scene) -> None:
    image = np.moveaxis(scene.photograph / 255, -1, 0)
    for mask in (None, scene.mask):
        result = ssim_loss.loss(image, scene.photograph, 0.2, mask)
        assert result.ssim == pytest.approx(1)
        assert result.value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("options", [Options(), Options(antialias=True)], ids=str)
def test_pipeline_gradients(scene: Scene, options: Options) -> None:
    scene = without_ties(scene)
    _, gradients = pipeline.loss_and_gradients(scene, options, 0.2, scene.mask)
    for name, values in scene.splats.items():

        def function(moved: Array, name: str = name) -> float:
            moved_scene = replace(scene, splats=replace(scene.splats, **{name: moved}))
            return pipeline.loss(moved_scene, options, 0.2, scene.mask)

        assert_gradient(function, values, getattr(gradients.splats, name), probes=6)


def test_nonfinite_splats_are_invisible(scene: Scene) -> None:
    projected = project.forward(poisons(3, scene.camera), scene.camera, Options())
    assert [name for name, visible in zip(POISONS, projected.visible, strict=True) if visible] == []


def test_adam_first_step_moves_by_the_learning_rate() -> None:
    """Bias correction makes the first step lr * sign(gradient), whatever the gradient's size (Kingma and Ba, 2.1)."""
    rates = np.array([1e-3, 0.5])
    grads = np.array([[3.0, -1e-6], [1e4, -2.0]])
    zeros = np.zeros((2, 2))
    params, moments1, moments2 = adam.step(zeros, grads, zeros, zeros, rates, 1)
    np.testing.assert_allclose(params, -rates[:, None] * np.sign(grads), rtol=1e-6)
    params2, _, _ = adam.step(params, grads, moments1, moments2, rates, 2)
    np.testing.assert_allclose(params2, 2 * params, rtol=1e-6)
