"""Every lens: round trips, and the kernel against the reference and COLMAP's undistorter."""

import numpy as np
import pytest

from splat_cli.device import open_backend
from splat_cli.errors import SceneError
from splat_cli.scene.colmap.model import CAMERA_MODELS, Camera, lens_of
from splat_cli.scene.lens import Lens, undistort
from splat_cli.scene.lens.camera import field_of_view
from splat_cli.scene.lens.distortion import Division, Equirectangular, Eucm, Fov, FTheta, Polynomial
from tests.scene.colmap_cameras import distorted_cameras
from tests.scene.lens.colmap_compared import compared_with_colmap, textured

SKEWED = Lens(160, 120, 110.0, 108.0, 82.0, 58.0, Polynomial(radial=(-0.1,), tangential=(0.003, -0.002), skew=0.02))


FTHETA = Lens(160, 120, 110.0, 108.0, 82.0, 58.0, FTheta((0.02, -0.1, 0.03, -0.004)))
OTHERS = [pytest.param(SKEWED, id="skewed"), pytest.param(FTHETA, id="ftheta")]


def each_camera(width=160, height=120):
    return [pytest.param(camera, id=camera.model) for camera in distorted_cameras(width, height)]


def each_lens():
    return [pytest.param(lens_of(camera), id=camera.model) for camera in distorted_cameras()]


def pixels_of(lens):
    return np.stack(np.meshgrid(np.linspace(1, lens.width - 1, 15), np.linspace(1, lens.height - 1, 11)), axis=-1)


def test_every_model_of_colmap_has_a_camera_here():
    flat = {"SIMPLE_PINHOLE", "PINHOLE", "EQUIRECTANGULAR"}
    assert {camera.model for camera in distorted_cameras()} == {name for name, _ in CAMERA_MODELS.values()} - flat


@pytest.mark.parametrize("lens", [*each_lens(), *OTHERS])
def test_undistorted_and_distorted_again(lens):
    places = (pixels_of(lens) - [lens.cx, lens.cy]) / [lens.fx, lens.fy]
    straight = lens.distortion.undistort(places)
    assert np.abs(straight - places).max() > 0.01
    np.testing.assert_allclose(lens.distortion.distort(straight), places, atol=1e-9)


def reference(lens, photo):
    """The expected picture of the kernel, float64 [H, W, 3], and its mask."""
    pinhole = lens.pinhole
    columns, rows = np.meshgrid(np.arange(pinhole.width) + 0.5, np.arange(pinhole.height) + 0.5)
    rays = (np.stack([columns, rows], -1) - [pinhole.cx, pinhole.cy]) / [pinhole.fx, pinhole.fy]
    place = lens.distortion.distort(rays) * [lens.fx, lens.fy] + [lens.cx, lens.cy] - 0.5
    inside = ((place >= 0) & (place < [lens.width - 1, lens.height - 1])).all(axis=-1)
    x, y = np.where(inside[..., None], place, 0).transpose(2, 0, 1)
    x0, y0 = x.astype(int), y.astype(int)
    dx, dy = (x - x0)[..., None], (y - y0)[..., None]
    p = photo.astype(float)
    upper = p[y0, x0] * (1 - dx) + p[y0, x0 + 1] * dx
    lower = p[y0 + 1, x0] * (1 - dx) + p[y0 + 1, x0 + 1] * dx
    return np.where(inside[..., None], upper * (1 - dy) + lower * dy, 0), inside


@pytest.mark.parametrize("lens", [*each_lens(), *OTHERS])
def test_kernel_agrees_with_the_reference(lens):
    picture, mask = undistort(open_backend("cpu"), lens, textured(lens))
    expected, inside = reference(lens, textured(lens))
    np.testing.assert_array_equal(mask > 0, inside)
    assert np.abs(picture - expected).max() < 0.51


@pytest.mark.parametrize("camera", each_camera(320, 240))
def test_same_camera_and_picture_as_colmap(camera):
    pytest.importorskip("pycolmap")
    found = compared_with_colmap(camera)
    assert found.same_size
    assert found.parameters < 1e-4
    assert found.mean < 0.01
    assert found.largest <= 1


def test_pixels_left_out_of_the_photograph_are_left_out_of_the_picture():
    lens = lens_of(distorted_cameras()[0])
    keep = np.full((lens.height, lens.width), 255, np.uint8)
    keep[40:80, 60:100] = 0
    _, mask = undistort(open_backend("cpu"), lens, textured(lens), keep)
    assert mask[lens.height // 2, lens.width // 2] == 0
    assert mask[10, 10] == 255
    assert 1500 < (mask == 0).sum() < 2500


@pytest.mark.parametrize(
    ("model", "params"),
    [
        ("FOV", (100, 100, 80, 60, 0.0)),
        ("DIVISION", (100, 100, 80, 60, 0.0)),
        ("EUCM", (100, 100, 80, 60, 0.0, 1.0)),
        ("OPENCV", (100, 100, 80, 60, 0, 0, 0, 0)),
        ("SIMPLE_RADIAL", (100, 80, 60, 0)),
    ],
)
def test_without_distortion_it_is_a_pinhole(model, params):
    """Undistorted, photographs would lose a row and a column, and be filtered."""
    assert lens_of(Camera(1, model, 160, 120, params)) == Lens(160, 120, 100, 100, 80, 60)


@pytest.mark.parametrize(
    ("model", "params", "message"),
    [
        ("EUCM", (100, 100, 80, 60, 2.0, 1.0), "invalid parameters"),
        ("RADIAL", (0, 80, 60, 0.1, 0), "focal length"),
    ],
)
def test_lens_that_cannot_be_used(model, params, message):
    with pytest.raises(SceneError, match=message):
        lens_of(Camera(1, model, 160, 120, params))


@pytest.mark.parametrize("value", [0.0, -1e3, 1e3, 1e30])
@pytest.mark.parametrize("camera", each_camera())
@pytest.mark.filterwarnings("error")
def test_absurd_parameters_give_a_camera_or_an_error(camera, value):
    params = (*camera.params[:3], *(value for _ in camera.params[3:]))
    try:
        pinhole = lens_of(Camera(1, camera.model, 160, 120, params)).pinhole
    except SceneError:
        return
    assert pinhole.width <= 320
    assert pinhole.height <= 240


def wide_rays(limit):
    """Rays [N, 3] up to an angle to the axis, in radians."""
    angle, azimuth = np.meshgrid(np.linspace(0.01, limit, 12), np.linspace(0, 6, 9))
    x, y, z = np.sin(angle) * np.cos(azimuth), np.sin(angle) * np.sin(azimuth), np.cos(angle)
    return np.stack([x, y, z], axis=-1).reshape(-1, 3)


@pytest.mark.parametrize("camera", each_camera())
def test_rays_project_as_in_colmap(camera):
    """Also beside the camera, where COLMAP's model reaches so far; and back."""
    pycolmap = pytest.importorskip("pycolmap")
    theirs = pycolmap.Camera(model=camera.model, width=camera.width, height=camera.height, params=list(camera.params))
    lens = lens_of(camera)
    rays = wide_rays(field_of_view(lens.distortion, (lens.fx, lens.fy), (lens.cx, lens.cy), (160, 120)).angle)
    ahead = rays[rays[:, 2] > 0.05]
    places = lens.distortion.project(ahead)
    expected = theirs.img_from_cam(ahead)
    np.testing.assert_allclose(places * [lens.fx, lens.fy] + [lens.cx, lens.cy], expected, atol=1e-6)
    np.testing.assert_allclose(lens.distortion.unproject(lens.distortion.project(rays)), rays, atol=1e-7)


@pytest.mark.parametrize(
    "lens", [Polynomial((0.02, -0.003), fisheye=True), Fov(1.1), Division(-0.3), Eucm(0.62, 1.1), FTheta((0.02, -0.03))]
)
def test_rays_behind_the_plane_z_0(lens):
    rays = wide_rays(1.9)
    places = lens.project(rays)
    assert np.isfinite(places).all()
    np.testing.assert_allclose(lens.unproject(places), rays, atol=1e-9)


def test_strong_distortion_is_inverted():
    """Radii grow almost four times as fast at the edge as in the middle: there, steps without derivatives diverge."""
    points = np.array([[1.0, 0.0], [-0.6, 0.8], [0.5, 0.5], [0.0, 0.0]])
    lens = Polynomial((0.9,))
    np.testing.assert_allclose(lens.undistort(lens.distort(points)), points, atol=1e-9)


def test_sphere_has_all_rays():
    rays = np.random.default_rng(0).normal(size=(50, 3))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    places = Equirectangular().project(rays)
    assert (np.abs(places) <= [np.pi, np.pi / 2]).all()
    np.testing.assert_allclose(Equirectangular().unproject(places), rays, atol=1e-12)
    slopes = np.where(rays[:, 2:] > 0, rays[:, :2] / rays[:, 2:], np.nan)
    np.testing.assert_allclose(Equirectangular().undistort(places), slopes, atol=1e-12)
    ahead = rays[:, 2] > 0
    np.testing.assert_allclose(Equirectangular().distort(slopes[ahead]), places[ahead], atol=1e-12)


def test_field_of_view_ends_where_the_lens_folds():
    """The image of this lens moves inwards from 60 degrees on; its corners have no rays."""
    slope = 1 / (3 * np.deg2rad(60) ** 2)
    field = field_of_view(Polynomial((-slope,), fisheye=True), (40.0, 40.0), (50.0, 50.0), (100, 100))
    assert np.rad2deg(field.angle) == pytest.approx(60, abs=0.2)
    assert not field.is_whole


def test_circular_fisheye_ends_at_the_edges():
    field = field_of_view(Polynomial(fisheye=True), (30.0, 30.0), (50.0, 50.0), (100, 100))
    assert field.angle == pytest.approx(1.15 * 50 / 30, abs=0.01)
    assert not field.is_whole
