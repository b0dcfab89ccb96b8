"""COLMAP cameras as pinholes: the one place that knows which camera models can be used."""

from typing import NamedTuple

from splat_cli.errors import SceneError
from splat_cli.scene.colmap.model import Camera


class Pinhole(NamedTuple):
    """Focal lengths and principal point in pixels; the image's top-left corner is (0, 0)."""

    fx: float
    fy: float
    cx: float
    cy: float


def pinhole(camera: Camera) -> Pinhole:
    """The camera without distortion. SceneError where its model has some or its focal length is not positive."""
    match camera.model, camera.params:
        case "SIMPLE_PINHOLE", (f, cx, cy):
            lens = Pinhole(f, f, cx, cy)
        case "PINHOLE", (fx, fy, cx, cy):
            lens = Pinhole(fx, fy, cx, cy)
        case _:
            raise SceneError(
                f"camera {camera.id} uses the camera model {camera.model}; only PINHOLE and SIMPLE_PINHOLE can be "
                "used: undistort the scene with `colmap image_undistorter` and give its output folder"
            )
    if lens.fx <= 0 or lens.fy <= 0:
        raise SceneError(
            f"camera {camera.id} has the focal length {min(lens.fx, lens.fy)}; "
            "it must be positive: export the model again"
        )
    return lens


def resized(lens: Pinhole, size: tuple[int, int], new_size: tuple[int, int]) -> Pinhole:
    """The same camera with its image of `size` (width, height) resampled to `new_size`."""
    x, y = new_size[0] / size[0], new_size[1] / size[1]
    return Pinhole(lens.fx * x, lens.fy * y, lens.cx * x, lens.cy * y)
