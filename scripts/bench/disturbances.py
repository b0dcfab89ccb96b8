"""Disturbances of photographs and cameras, which refinement should undo (recovery.py)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from splat_cli.device import open_backend
from splat_cli.run.setup.training_data import TrainingData
from splat_cli.scene.extent import scene_extent
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.lens.camera import Lens, Pinhole
from splat_cli.scene.lens.distortion import Polynomial
from splat_cli.scene.lens.undistort import undistort
from splat_cli.scene.poses import moved_intrinsics, moved_views
from splat_cli.scene.view import View

DEGREES, SHARE = 0.5, 0.01
FOCAL_ERROR, K1_ERROR = 0.03, 0.05
OWN_ERRORS = 0.01, 0.02  # of focal lengths and principal points, relative to focal lengths; one camera per photograph


def wrong_poses(photographs: ImageSet, rng: np.random.Generator) -> ImageSet:
    """Each camera rotated by DEGREES and shifted by SHARE of the scene's extent, in random directions."""

    def vector(length: float) -> np.ndarray:
        direction = rng.normal(size=3)
        return length * direction / np.linalg.norm(direction)

    shift = SHARE * scene_extent(photographs.views)
    offsets = [np.concatenate([vector(np.radians(DEGREES)), vector(shift)]) for _ in photographs.views]
    return photographs._replace(views=moved_views(photographs.views, np.array(offsets)))


def wrong_intrinsics(photographs: ImageSet, rng: np.random.Generator) -> ImageSet:
    """Each camera's focal length is longer by FOCAL_ERROR; its principal point is off by a third of this error."""

    def disturbed(view: View) -> View:
        x, y = FOCAL_ERROR / 3 * view.fx, -FOCAL_ERROR / 3 * view.fy
        factor = 1 + FOCAL_ERROR
        return dataclasses.replace(view, fx=factor * view.fx, fy=factor * view.fy, cx=view.cx + x, cy=view.cy + y)

    return photographs._replace(views=[disturbed(view) for view in photographs.views])


def own_wrong_intrinsics(photographs: ImageSet, rng: np.random.Generator) -> ImageSet:
    """Each view has its own errors of focal length and principal point: OWN_ERRORS, of either sign."""
    errors = either_sign(OWN_ERRORS, (len(photographs.views), 3), rng)
    return photographs._replace(views=[moved_intrinsics(*row) for row in zip(photographs.views, errors, strict=True)])


def either_sign(sizes: tuple[float, float], shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Numbers with these absolute values, half of them negative, in random order along the first axis."""
    signs = rng.permuted(np.resize([1, -1], shape[0])[:, *[None] * (len(shape) - 1)] * np.ones(shape), axis=0)
    return signs * rng.uniform(*sizes, shape)


def distorted(photographs: ImageSet, k1: Sequence[float]) -> ImageSet:
    """Photographs through a lens that shows slopes s at about s (1 + k1 |s|^2), and views with this distortion."""
    backend = open_backend("cpu")

    def seen(view: View, image: np.ndarray, k1: float) -> np.ndarray:
        camera = view.width, view.height, view.fx, view.fy, view.cx, view.cy
        return undistort(backend, Lens(*camera, Polynomial((-k1,))), image, pinhole=Pinhole(*camera))[0]

    images = [seen(*row) for row in zip(photographs.views, photographs.images, k1, strict=True)]
    views = [dataclasses.replace(view, radial=(k, 3 * k**2)) for view, k in zip(photographs.views, k1, strict=True)]
    return photographs._replace(views=views, images=images)  # k2 of the inverse series


def with_distortion(data: TrainingData, own_cameras: bool, seed: int) -> TrainingData:
    """Photographs distorted by K1_ERROR, or each training photograph by 50 to 100 % of it, of either sign."""
    assert data.held_out is not None
    num, rng = len(data.training.views), np.random.default_rng(seed)
    if own_cameras:
        k1 = either_sign((K1_ERROR / 2, K1_ERROR), (num,), rng)
        return dataclasses.replace(data, training=distorted(data.training, list(k1)))
    held_out = distorted(data.held_out, [K1_ERROR] * len(data.held_out.views))
    return dataclasses.replace(data, training=distorted(data.training, [K1_ERROR] * num), held_out=held_out)


def without_distortion(photographs: ImageSet, rng: np.random.Generator) -> ImageSet:
    """Views without the distortion of their photographs."""
    return photographs._replace(views=[dataclasses.replace(view, radial=(0.0, 0.0)) for view in photographs.views])


def wrong_exposures(photographs: ImageSet, rng: np.random.Generator) -> ImageSet:
    """Each photograph with its own factors and offset."""

    def exposed(image: np.ndarray) -> np.ndarray:
        factors = 0.75 ** rng.uniform(-1, 1) * 1.05 ** rng.uniform(-1, 1, 3)
        return np.clip(np.rint(image * factors + rng.uniform(-5, 5)), 0, 255).astype(np.uint8)

    return photographs._replace(images=[exposed(image) for image in photographs.images])


def vignetted(photographs: ImageSet, rng: np.random.Generator) -> ImageSet:
    """`wrong_exposures`; also, each photograph gets darker with the squared distance from its own centre."""

    def darkened(image: np.ndarray) -> np.ndarray:
        height, width = image.shape[:2]
        x, y = ((np.arange(size) + 0.5) / size - rng.uniform(0.4, 0.6) for size in (width, height))
        radius2 = (x[None, :] ** 2 + y[:, None] ** 2) / 0.5  # about 1 at the corners
        return np.rint(image * (1 - rng.uniform(0, 0.4) * np.minimum(radius2, 1))[..., None]).astype(np.uint8)

    exposed = wrong_exposures(photographs, rng)
    return exposed._replace(images=[darkened(image) for image in exposed.images])


def by_one_camera(photographs: ImageSet, rng: np.random.Generator) -> ImageSet:
    """Photographs with different exposures and white balances, and the vignetting and response of one camera."""

    def taken(image: np.ndarray) -> np.ndarray:
        height, width = image.shape[:2]
        x, y = ((np.arange(size) + 0.5 - size / 2) / np.hypot(width, height) * 2 for size in (width, height))
        r2 = (x[None, :] - 0.05) ** 2 + (y[:, None] + 0.03) ** 2
        gains = 2 ** (rng.normal(0, 0.5) + rng.normal(0, 0.15, 3))
        light = np.clip(image / 255 * gains * (1 - 0.5 * r2 + 0.05 * r2**2)[..., None], 0, 1)
        return np.rint(255 * (light - 0.5 * light * (1 - light) * (1 - 2 * light))).astype(np.uint8)

    return photographs._replace(images=[taken(image) for image in photographs.images])


def with_walkers(photographs: ImageSet, rng: np.random.Generator) -> ImageSet:
    """Each photograph with two boxes in front of the scene; each box has its own colour and noise."""

    def crossed(image: np.ndarray) -> np.ndarray:
        image, (height, width) = image.copy(), image.shape[:2]
        for _ in range(2):
            h, w = (np.array([0.5, 0.18]) * rng.uniform(0.7, 1.3) * height).astype(int)
            y, x = rng.integers(0, height - h), rng.integers(0, width - w)
            texture = rng.integers(0, 256, 3) + rng.normal(0, 20, (h, w, 3))
            image[y : y + h, x : x + w] = np.clip(texture, 0, 255).astype(np.uint8)
        return image

    return photographs._replace(images=[crossed(image) for image in photographs.images])


DISTURB: dict[str, Callable[[ImageSet, np.random.Generator], ImageSet]] = {
    "poses": wrong_poses,
    "intrinsics": wrong_intrinsics,
    "distortion": without_distortion,
    "exposure": wrong_exposures,
    "vignetting": vignetted,
    "camera": by_one_camera,
    "walkers": with_walkers,
    "colors": lambda photographs, rng: photographs,
}


LENSES = "intrinsics", "distortion"  # held-out views follow the refined ones of their cameras


def with_own_cameras(photographs: ImageSet) -> ImageSet:
    """The views, each with its own camera."""
    views = [dataclasses.replace(view, camera_id=-1 - number) for number, view in enumerate(photographs.views)]
    return photographs._replace(views=views)


def disturb(what: str, data: TrainingData, seed: int, own_cameras: bool = False) -> TrainingData:
    """The data with disturbed training photographs. Disturbances of a common camera also apply to held-out ones."""
    rng, held_out = np.random.default_rng(seed), data.held_out
    if own_cameras and what == "intrinsics":
        return dataclasses.replace(data, training=own_wrong_intrinsics(data.training, rng))
    training = DISTURB[what](data.training, rng)
    if what in ("camera", *LENSES) and held_out is not None and not own_cameras:
        held_out = DISTURB[what](held_out, rng)
    return dataclasses.replace(data, training=training, held_out=held_out)
