"""Reference scenes on a device, and results of kernels in the format of the references."""

from dataclasses import dataclass, replace

import numpy as np

from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import LOG_SCALES, MEANS, OPACITIES, QUATS, SH0, SHN, Splats
from splat_cli.render.blend import blend_backward
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import SPLAT_SUMS, SUM_COLORS, Projection, RasterizationSettings, Update
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.lens import RollingShutter
from splat_cli.scene.lens.distortion import Distortion
from splat_cli.scene.view import View
from tests.reference import inputs
from tests.reference.blend import Flat
from tests.reference.project import Options, Projected, forward
from tests.reference.project_backward import ProjectedGradients
from tests.reference.random_scene import Scene

Array = np.ndarray

VIEW = 1  # the scene's index in the camera table, after a larger view
SPARE = 5  # columns of the parameter planes past the splats


def view_of(
    camera: inputs.Camera, distortion: Distortion | None = None, rolling_shutter: RollingShutter | None = None
) -> View:
    return View(
        "view",
        None,
        camera.width,
        camera.height,
        camera.fx,
        camera.fy,
        camera.cx,
        camera.cy,
        camera.w2c,
        radial=(camera.k1, camera.k2),
        distortion=distortion,
        rolling_shutter=rolling_shutter,
    )


@dataclass
class OnDevice:
    """A scene's splats, camera, photograph and mask on a backend, and a rasterizer for them."""

    backend: Backend
    splats: Splats
    cameras: CameraTable
    state: IterState
    rasterizer: Rasterizer

    @property
    def projection(self) -> Projection:
        return self.rasterizer.projection

    def download(self, array: object) -> Array:
        """An array as float64; integers keep their type. Memory that no kernel wrote may hold a signalling NaN."""
        host = self.backend.download(array)
        with np.errstate(invalid="ignore"):
            return host.astype(np.float64) if host.dtype.kind == "f" else host

    def forward(self) -> None:
        self.state.clear_counts()
        self.rasterizer.forward(self.splats, self.state)
        assert not self.state.read()["overflowed"]

    def update(self, update: Update) -> None:
        """Backward pass from the gradients of projected splats to the raw parameters, as `update` specifies.

        Puts projection.d_splats back, whose rows an update replaces.
        """
        sums = self.projection.d_splats.copy()
        self.rasterizer.update(self.splats, self.state, update)
        self.projection.d_splats[...] = sums

    def backward(self, update: Update) -> None:
        """Backward pass from rendered.d_image to the raw parameters, as `update` specifies."""
        self.rasterizer.backward_to_projection(self.splats, self.state, update.absgrad)
        self.update(update)

    def visible(self) -> Array:
        """bool [N]"""
        return self.download(self.projection.depths)[: self.splats.num] > 0

    def projected(self, rows: Array) -> dict[str, Array]:
        """Outputs of the projection of the splats `rows`, named as those of the references."""
        shapes = self.download(self.projection.conic_opacity)[rows]
        return {
            "depths": self.download(self.projection.depths)[rows],
            "means2d": self.download(self.projection.means2d)[rows],
            "conics": shapes[:, :3],
            "opacities": shapes[:, 3],
            "colors": self.download(self.projection.colors)[rows, :3],
        }

    def flat(self) -> tuple[Flat, Array]:
        """The kernels' projection in the format of the reference's `blend`, and the splat of each row."""
        depths = self.download(self.projection.depths)[: self.splats.num]
        rows = np.flatnonzero(depths > 0)
        rows = rows[np.argsort(depths[rows], kind="stable")]
        shapes = self.download(self.projection.conic_opacity)[rows]
        means2d, colors = self.download(self.projection.means2d)[rows], self.download(self.projection.colors)[rows]
        return Flat(means2d, shapes[:, :3], shapes[:, 3], colors[:, :3]), rows

    def image(self) -> Array:
        return self.download(self.rasterizer.image(VIEW))

    def plane(self, array: object) -> Array:
        """[H, W] of the view from an array [max_pixels]."""
        view = self.cameras.views[VIEW]
        return self.download(array)[: view.width * view.height].reshape(view.height, view.width)

    def set_d_image(self, d_image: Array) -> None:
        target = self.rasterizer.rendered.d_image
        target[: d_image.size] = self.backend.upload(d_image.astype(np.float32).ravel())


def on_device(
    backend: Backend,
    scene: Scene,
    options: Options,
    masked: bool = False,
    features: Array | None = None,
    distortion: Distortion | None = None,
    rolling_shutter: RollingShutter | None = None,
) -> OnDevice:
    """features: one row per splat, float32 [N, F]. distortion: of the views, which keep their lens."""
    arrays = {name: values.astype(np.float32) for name, values in scene.splats.items()}
    if features is not None:
        arrays["features"] = features
    splats = Splats.from_arrays(backend, SplatArrays(**arrays), scene.splats.num + SPARE)
    camera = scene.camera
    larger = replace(camera, width=2 * camera.width, height=2 * camera.height)
    photos = [backend.upload(np.zeros((larger.height, larger.width, 3), np.uint8)), backend.upload(scene.photograph)]
    masks = [None, backend.upload(scene.mask.astype(np.uint8)) if masked else None]
    views = [view_of(one, distortion, rolling_shutter) for one in (larger, camera)]
    cameras = CameraTable(backend, views, photos, masks)
    state = IterState(
        backend, view=VIEW, num_splats=splats.num, sh_degree=options.sh_degree, background=scene.background
    )
    settings = RasterizationSettings(training=True, antialias=options.antialias, position_gradients=True)
    rasterizer = Rasterizer(backend, cameras, splats.capacity, settings)
    rasterizer.projection.d_means[...] = 0
    return OnDevice(backend, splats, cameras, state, rasterizer)


def blend_backward_of_noise(device: OnDevice, absgrad: bool = False, seed: int = 0, scale: float = 1.0) -> None:
    """Forward pass, and the blend's backward pass for random gradients of the image, of standard deviation `scale`."""
    device.forward()
    view, rasterizer = device.cameras.views[VIEW], device.rasterizer
    device.set_d_image(np.random.default_rng(seed).normal(0, scale, (3, view.height, view.width)))
    projection, tiles, rendered = rasterizer.projection, rasterizer.tiles, rasterizer.rendered
    blend_backward(device.cameras, device.state, projection, tiles, rendered, absgrad=absgrad)


def projected_gradients(device: OnDevice, scene: Scene, options: Options) -> tuple[Projected, ProjectedGradients]:
    """The reference's projection, and its gradients from the sums of blend_backward on the device."""
    projected, rows = forward(scene.splats, scene.camera, options), device.visible()
    sums = np.zeros((scene.splats.num, SPLAT_SUMS))
    sums[rows] = device.download(device.projection.d_splats)[: scene.splats.num][rows]
    return projected, gradients_of_sums(sums, projected.conics, np.where(rows, projected.opacities, 1))


def by_parameter(planes: Array, num: int) -> inputs.Splats:
    """Planes [rows, capacity] as named arrays of `num` splats."""
    table = planes[:, :num].T
    return inputs.Splats(
        means=table[:, MEANS],
        log_scales=table[:, LOG_SCALES],
        quats=table[:, QUATS],
        logit_opacities=table[:, OPACITIES][:, 0],
        sh0=table[:, SH0],
        shN=table[:, SHN].reshape(num, -1, 3),
    )


def gradients_of_sums(sums: Array, conics: Array, opacities: Array) -> ProjectedGradients:
    """Gradients of projected splats from the sums [M, SPLAT_SUMS] of cuda_src/raster/blend_backward.cu.

    The sums are of g (1, dx, dy, dx^2, dx dy, dy^2) with g = dL/dpower, then of d rgb.
    """
    a, b, c = conics.T
    g, gx, gy, gxx, gxy, gyy = sums[:, :6].T
    return ProjectedGradients(
        means2d=np.stack([a * gx + b * gy, b * gx + c * gy], axis=1),
        conics=np.stack([-0.5 * gxx, -gxy, -0.5 * gyy], axis=1),
        opacities=g / opacities,
        colors=sums[:, SUM_COLORS],
    )
