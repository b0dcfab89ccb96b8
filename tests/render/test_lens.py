"""Projection through lenses against the unscented transform in float64, and against traced rays."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats as DeviceSplats
from splat_cli.joint.joint_model import Decay
from splat_cli.joint.poses import PoseRefinement
from splat_cli.render.project import Update
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.colmap.model import Camera as ColmapCamera
from splat_cli.scene.colmap.model import lens_of
from splat_cli.scene.lens import RollingShutter
from splat_cli.scene.lens.distortion import Distortion, Equirectangular, FTheta, Polynomial
from splat_cli.scene.view import View
from tests.compare import BACKWARD, FORWARD, Comparison
from tests.reference import unscented
from tests.reference.inputs import Camera, Splats, float32_exact
from tests.reference.lens import Lens
from tests.reference.project import Options
from tests.reference.random_scene import Scene, hard_scene
from tests.render.on_device import (
    OnDevice,
    blend_backward_of_noise,
    by_parameter,
    gradients_of_sums,
    on_device,
    view_of,
)

SIDE = 64
FISHEYE = Polynomial((0.03, -0.008, 0.002, -0.0003), fisheye=True)
LENSES = {
    "RADIAL": (40.0, (0.08, -0.02)),
    "OPENCV": (40.0, (0.05, -0.01, 0.004, -0.003)),
    "FULL_OPENCV": (40.0, (0.05, -0.01, 0.004, -0.003, 0.01, 0.02, -0.01, 0.003)),
    "OPENCV_FISHEYE": (22.0, (0.03, -0.008, 0.002, -0.0003)),
    "THIN_PRISM_FISHEYE": (22.0, (0.02, -0.004, 0.003, -0.002, 0.001, -0.0001, 0.002, -0.001)),
    "RAD_TAN_THIN_PRISM_FISHEYE": (
        22.0,
        (0.02, -0.004, 0.001, -0.0001, 0.0, 0.0, 0.003, -0.002, 0.002, 0.001, -0.001, 0.0005),
    ),
    "FOV": (30.0, (1.1,)),
    "DIVISION": (30.0, (-0.2,)),
    "EUCM": (25.0, (0.62, 1.1)),
    "FTHETA": (22.0, (0.03, -0.04, 0.01, -0.001)),
    "EQUIRECTANGULAR": (SIDE / (2 * np.pi), ()),
}
"""Model -> focal length in pixels, parameters after the matrix. RAD_TAN_...: p0 and p1 are in COLMAP's order."""

SHUTTERS = {
    "RADIAL": RollingShutter((0.06, -0.1, 0.05), (0.02, -0.05, 0.03)),
    "OPENCV_FISHEYE": RollingShutter((-0.1, 0.15, 0.05), (0.1, 0.05, -0.1)),
}
"""Model -> motion of a camera with this lens."""


def lens_scene(model: str, shutter: RollingShutter | None = None, num: int = 96) -> tuple[Scene, Lens]:
    """Splats of several sizes in all directions that the lens sees, and some beside and behind it."""
    rng = np.random.default_rng(0)
    focal, params = LENSES[model]
    base = hard_scene(1)
    camera = Camera(base.camera.w2c, focal, 1.05 * focal, 31.0, 33.0, SIDE, SIDE)
    if model == "EQUIRECTANGULAR":
        camera = replace(camera, fy=focal, cx=SIDE / 2, cy=SIDE / 4, height=SIDE // 2)
    distances = rng.uniform(1.0, 6.0, (num, 1))
    rays = rng.normal(size=(4 * num, 3)) + [0, 0, 0.7 if focal < 35 else 2.5]
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    # Near an axis, where directions have no azimuth, splats of this size are not what the transform is for.
    rays = rays[(rays[:, 2] > -0.8) & (np.abs(rays[:, 1]) < 0.9)][:num]
    positions = rays * distances
    means = (positions - camera.w2c[:3, 3]) @ camera.w2c[:3, :3]
    scales = distances * np.exp(rng.uniform(-4.0, -1.8, (num, 3)))
    scales[::8] *= [2.0, 0.05, 0.05]  # needles
    scales[1::8] = distances[1::8] * rng.uniform(0.4, 0.8, (num // 8, 1))  # around the camera, or nearly so
    splats = Splats(
        means=means,
        log_scales=np.log(scales),
        quats=rng.normal(size=(num, 4)) * rng.uniform(0.3, 3, (num, 1)),
        logit_opacities=rng.normal(-0.5, 1.5, num),
        sh0=rng.normal(0, 1, (num, 3)),
        shN=rng.normal(0, 0.25, (num, 15, 3)),
    )
    splats = Splats(**{name: float32_exact(values) for name, values in splats.items()})
    picture = np.zeros((camera.height, camera.width), bool)
    scene = Scene(splats, camera, base.background, np.zeros((*picture.shape, 3), np.uint8), picture)
    view = view_of(camera, distortion_of(model))
    lens = Lens(model, params, view.field_of_view.angle, view.field_of_view.cull_angle)
    return scene, lens if shutter is None else replace(lens, rotation=shutter.rotation, shift=shutter.shift)


def distortion_of(model: str) -> Distortion | None:
    focal, params = LENSES[model]
    if model == "EQUIRECTANGULAR":
        return lens_of(ColmapCamera(1, model, SIDE, SIDE // 2, (SIDE, SIDE // 2))).distortion
    if model == "FTHETA":
        return FTheta(params)
    matrix = (focal, 31.0, 33.0) if model == "RADIAL" else (focal, focal, 31.0, 33.0)
    return lens_of(ColmapCamera(1, model, SIDE, SIDE, (*matrix, *params))).distortion


CASES = [(model, None) for model in LENSES] + list(SHUTTERS.items())


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}{' moving' if case[1] else ''}")
def case(request: pytest.FixtureRequest, backend: Backend, options: Options) -> tuple[OnDevice, Scene, Lens]:
    model, shutter = request.param
    scene, lens = lens_scene(model, shutter)
    return on_device(backend, scene, options, distortion=distortion_of(model), rolling_shutter=shutter), scene, lens


def test_project(comparison: Comparison, case: tuple[OnDevice, Scene, Lens], options: Options) -> None:
    device, scene, lens = case
    device.forward()
    expected = unscented.forward(scene.splats, scene.camera, lens, options)
    np.testing.assert_array_equal(device.visible(), expected.visible)
    rows = np.flatnonzero(expected.visible)
    assert len(rows) > 40
    for name, actual in device.projected(rows).items():
        comparison.check(f"project {lens.model}", name, actual, getattr(expected, name)[rows], FORWARD)


def test_project_backward(comparison: Comparison, case: tuple[OnDevice, Scene, Lens], options: Options) -> None:
    device, scene, lens = case
    blend_backward_of_noise(device)
    d_params = device.backend.xp.zeros_like(device.splats.params)
    device.update(Update(d_params=d_params))
    actual = by_parameter(device.download(d_params), scene.splats.num)
    rows = device.visible()
    splats = scene.splats[rows]
    sums = device.download(device.projection.d_splats)[: scene.splats.num][rows]
    projected = unscented.forward(splats, scene.camera, lens, options)
    weights = gradients_of_sums(sums, projected.conics, projected.opacities)
    expected = unscented.backward(splats, scene.camera, lens, options, weights)
    for name, values in expected.items():
        comparison.check(f"project_backward {lens.model}", name, getattr(actual, name)[rows], values, BACKWARD)


def losses_of_camera(case: tuple[OnDevice, Scene, Lens], options: Options) -> Callable[[np.ndarray], float]:
    """Loss as a function of changes: rotation and shift in camera axes, log of the focal lengths, principal point."""
    device, scene, lens = case
    rows = device.visible()
    sums = device.download(device.projection.d_splats)[: scene.splats.num][rows]
    splats, camera = scene.splats[rows], scene.camera
    projected = unscented.forward(splats, camera, lens, options)
    weights = gradients_of_sums(sums, projected.conics, projected.opacities)

    def loss(change: np.ndarray) -> float:
        w2c = camera.w2c.copy()
        w2c[:3] = (np.eye(3) + np.cross(change[:3], np.eye(3), axisb=0, axisc=0)) @ w2c[:3]
        w2c[:3, 3] += change[3:6]
        factor = np.exp(change[6])
        moved = replace(
            camera, w2c=w2c, fx=factor * camera.fx, fy=factor * camera.fy, cx=camera.cx + change[7],
            cy=camera.cy + change[8],
        )  # fmt: skip
        found = unscented.forward(splats, moved, lens, options)
        return sum(float((getattr(found, name) * weight).sum()) for name, weight in vars(weights).items())

    return loss


@pytest.mark.parametrize(("model", "moves"), [("OPENCV", False), ("OPENCV_FISHEYE", False), ("OPENCV_FISHEYE", True)])
def test_gradient_of_the_camera(backend: Backend, comparison: Comparison, model: str, moves: bool) -> None:
    """Rotation, position, focal length and principal point, as --pose-opt and --refine-intrinsics use them.

    Only rotation and position if the camera moves.
    """
    shutter = SHUTTERS[model] if moves else None
    scene, lens = lens_scene(model, shutter)
    options, num = Options(), 6 if moves else 9
    device = on_device(backend, scene, options, distortion=distortion_of(model), rolling_shutter=shutter)
    poses = PoseRefinement(backend, device.cameras, Decay(first=1e-2, last=1e-4, steps=100), 2.0)
    blend_backward_of_noise(device)
    poses.accumulate_gradients(device.splats, device.state, device.rasterizer)
    actual = device.download(poses.d_pose).sum(axis=0)
    loss = losses_of_camera((device, scene, lens), options)
    steps = 1e-6 * np.eye(9)
    expected = np.array([(loss(step) - loss(-step)) / 2e-6 for step in steps])
    comparison.check("pose_backward", f"camera of {model}", actual[:num], expected[:num], BACKWARD)


def one_splat(backend: Backend, mean: np.ndarray, scales: tuple[float, float, float]) -> DeviceSplats:
    """A white splat of opacity 0.5, its axes along those of the world."""
    logs = np.log([scales]).astype(np.float32)
    quats, logits = np.array([[1, 0, 0, 0]], np.float32), np.zeros(1, np.float32)
    white = np.full((1, 3), 0.5 / 0.28209479, np.float32)
    arrays = SplatArrays(mean[None].astype(np.float32), logs, quats, logits, white, np.zeros((1, 0, 3), np.float32))
    return DeviceSplats.from_arrays(backend, arrays, 1)


@pytest.mark.parametrize("degrees", [10, 60, 85, 95])
def test_footprint_is_that_of_traced_rays(backend: Backend, degrees: float) -> None:
    """Place, size and shape of one splat: alpha of a ray is the splat's largest value along it (3DGUT, sec. 4.2)."""
    view = View("view", None, 160, 160, 50.0, 50.0, 80.0, 80.0, np.eye(4), distortion=FISHEYE)
    angle, azimuth = np.deg2rad(degrees), np.deg2rad(25)
    mean = 2 * np.array([np.sin(angle) * np.cos(azimuth), np.sin(angle) * np.sin(azimuth), np.cos(angle)])
    scales = (0.1, 0.05, 0.07)
    picture = ViewRenderer(backend, one_splat(backend, mean, scales), [view]).render(0)[..., 0].astype(np.float64)
    rays = np.nan_to_num(view.rays()) / scales
    start = -mean / scales
    along = np.maximum(-(rays @ start) / np.maximum((rays**2).sum(axis=-1), 1e-12), 0)
    traced = 0.5 * np.exp(-0.5 * ((start + along[..., None] * rays) ** 2).sum(axis=-1))
    traced[traced < 1 / 255] = 0
    (mass, center, covariance), (expected_mass, expected_center, expected) = moments(picture), moments(traced)
    assert np.abs(center - expected_center).max() < 0.25, "of a width of about 3 pixels"
    np.testing.assert_allclose(covariance - 0.28 * np.eye(2), expected, atol=0.06 * np.trace(expected))
    dilation = np.sqrt(np.linalg.det(expected + 0.3 * np.eye(2)) / np.linalg.det(expected))
    assert mass == pytest.approx(dilation * expected_mass, rel=0.05)


def moments(picture: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Sum, centroid [2] and covariance [2, 2] of a picture, px."""
    rows, columns = np.indices(picture.shape) + 0.5
    places, mass = np.stack([columns.ravel(), rows.ravel()]), picture.sum()
    center = places @ picture.ravel() / mass
    offsets = places - center[:, None]
    return float(mass), center, (offsets * picture.ravel()) @ offsets.T / mass


def test_splats_behind_the_camera_are_not_folded_into_the_picture(backend: Backend) -> None:
    """A wall behind a fisheye camera, whose picture would surround that of the room."""
    view = View("view", None, 64, 64, 18.0, 18.0, 32.0, 32.0, np.eye(4), distortion=FISHEYE)
    splats = one_splat(backend, np.array([0.1, 0.2, -1.0]), (0.7, 0.7, 0.01))
    assert ViewRenderer(backend, splats, [view]).render(0).max() == 0


def test_spheres_have_no_seam(backend: Backend) -> None:
    """A turn by a quarter shifts the picture and gradients of it by a quarter, whatever crosses its edges."""
    scene, _ = lens_scene("EQUIRECTANGULAR")
    scene.splats.log_scales[3::8, 0] += 1.5  # a few wider than a tile
    turn = np.eye(4)
    turn[[0, 0, 2, 2], [0, 2, 0, 2]] = [0, -1, 1, 0]  # x to the left of it
    turned = replace(scene, camera=replace(scene.camera, w2c=turn @ scene.camera.w2c))
    pictures, gradients = [], []
    quarter, rng = SIDE // 4, np.random.default_rng(0)
    d_image = rng.normal(size=(3, SIDE // 2, SIDE))
    for part, shift in ((scene, 0), (turned, -quarter)):
        device = on_device(backend, part, Options(), distortion=Equirectangular())
        device.forward()
        pictures.append(device.image())
        device.set_d_image(np.roll(d_image, shift, axis=2))
        d_params = device.backend.xp.zeros_like(device.splats.params)
        device.backward(Update(d_params=d_params))
        gradients.append(device.download(d_params))
    assert np.abs(np.diff(pictures[0][:, :, [0, -1]], axis=2)).max() < 0.5
    np.testing.assert_allclose(np.roll(pictures[0], -quarter, axis=2), pictures[1], atol=2e-3)
    scale = np.abs(gradients[0]).max(axis=1, keepdims=True)
    np.testing.assert_allclose(gradients[0] / scale, gradients[1] / scale, atol=2e-3)
