"""Hard random scenes. float32 represents all numbers exactly, so kernel and reference start from the same bits."""

from dataclasses import dataclass, replace

import numpy as np

from tests.reference.inputs import Camera, Splats, float32_exact

Array = np.ndarray

WIDTH, HEIGHT = 50, 37  # not a multiple of a tile's 16


@dataclass(frozen=True)
class Scene:
    splats: Splats
    camera: Camera
    background: Array  # [3]
    photograph: Array  # uint8 [H, W, 3]
    mask: Array  # bool [H, W]


def random_camera(rng: np.random.Generator) -> Camera:
    """A rolled camera anywhere in the world, with different fx and fy and a principal point off the centre."""
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    w2c = np.eye(4)
    w2c[:3, :3] = rotation * np.sign(np.linalg.det(rotation))
    w2c[:3, 3] = rng.normal(size=3)
    fx, fy, cx, cy = float32_exact(np.array([45.0, 52.0, 0.41 * WIDTH, 0.6 * HEIGHT]) * rng.uniform(0.95, 1.05, 4))
    return Camera(float32_exact(w2c), float(fx), float(fy), float(cx), float(cy), WIDTH, HEIGHT)


def to_world(camera: Camera, pixels: Array, depths: Array) -> Array:
    """Points [N, 3] that project to pixels [N, 2] at camera z = depths [N]."""
    slopes = (pixels - [camera.cx, camera.cy]) / [camera.fx, camera.fy]
    positions = np.column_stack([slopes, np.ones(len(depths))]) * depths[:, None]
    return (positions - camera.w2c[:3, 3]) @ camera.w2c[:3, :3]


def ordinary(rng: np.random.Generator, camera: Camera, num: int) -> Splats:
    """Visible splats of a few pixels, of SH degree 3, with quaternions of any length."""
    means = to_world(camera, rng.uniform(0, [camera.width, camera.height], (num, 2)), rng.uniform(1.5, 8, num))
    splats = Splats(
        means=means,
        log_scales=rng.uniform(-3.5, -1.0, (num, 3)),
        quats=rng.normal(size=(num, 4)) * rng.uniform(0.3, 3, (num, 1)),
        logit_opacities=rng.normal(-0.5, 1.5, num),
        sh0=rng.normal(0, 1, (num, 3)),
        shN=rng.normal(0, 0.25, (num, 15, 3)),
    )
    return Splats(**{name: float32_exact(values) for name, values in splats.items()})


def hard_scene(seed: int, num: int = 144) -> Scene:
    """A twelfth each: huge, tiny, needles, discs, behind or near the camera, at the border, transparent, opaque, pairs
    at the same place, far outside the frame. The remaining splats are ordinary."""
    rng = np.random.default_rng(seed)
    camera = random_camera(rng)
    splats = ordinary(rng, camera, num)
    share = num // 12
    huge, tiny, needles, discs, near, border, transparent, opaque, twins, outside = (
        slice(k * share, (k + 1) * share) for k in range(10)
    )
    splats.log_scales[huge] = rng.uniform(0.5, 2.5, (share, 3))
    # Thin, so that splats behind them are visible.
    for wide in (huge, near, outside):
        splats.logit_opacities[wide] = rng.normal(-4, 0.7, share)
    splats.log_scales[tiny] = rng.uniform(-12, -7, (share, 3))
    splats.log_scales[needles] = rng.normal([0.0, -7.0, -7.0], 0.3, (share, 3))
    splats.log_scales[discs] = rng.normal([-0.5, -0.7, -9.0], 0.3, (share, 3))
    frame = np.array([camera.width, camera.height])
    splats.means[near] = to_world(camera, rng.uniform(0, frame, (share, 2)), rng.uniform(-2, 0.4, share))
    around = frame * np.column_stack([rng.choice([-0.05, 1.05], share), rng.uniform(-0.2, 1.2, share)])
    splats.means[border] = to_world(camera, around, rng.uniform(1.5, 8, share))
    splats.logit_opacities[transparent] = rng.uniform(-6.5, -4.5, share)
    splats.logit_opacities[opaque] = rng.uniform(5, 12, share)
    splats.means[twins] = splats.means[twins.start]
    splats.means[outside] = to_world(camera, frame * rng.uniform(1.3, 2, (share, 2)), rng.uniform(1.5, 4, share))
    splats.log_scales[outside] = rng.uniform(-1, 1, (share, 3))
    order = rng.permutation(num)
    return Scene(
        splats=Splats(**{name: float32_exact(values) for name, values in splats[order].items()}),
        camera=camera,
        background=float32_exact(rng.uniform(0, 1, 3)),
        photograph=rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8),
        mask=rng.uniform(size=(HEIGHT, WIDTH)) < 0.8,
    )


def distorted(scene: Scene) -> Scene:
    """The scene through a lens with a radial distortion of a few per cent at the corners."""
    k1, k2 = float32_exact(np.array([0.11, -0.07]))
    return replace(scene, camera=replace(scene.camera, k1=float(k1), k2=float(k2)))


def without_ties(scene: Scene) -> Scene:
    """The scene with equal depths moved apart, so that a finite difference cannot change the order."""
    means = scene.splats.means + np.random.default_rng(0).normal(0, 1e-3, scene.splats.means.shape)
    return replace(scene, splats=replace(scene.splats, means=float32_exact(means)))


# One bad number (field, value) in a splat that would otherwise cover the middle of the image.
POISONS = {
    "mean NaN": ("means", np.nan),
    "mean Inf": ("means", np.inf),
    "mean -Inf": ("means", -np.inf),
    "scale NaN": ("log_scales", np.nan),
    "scale overflows": ("log_scales", 100.0),
    "scale Inf": ("log_scales", np.inf),
    "quaternion NaN": ("quats", np.nan),
    "quaternion Inf": ("quats", np.inf),
    "opacity NaN": ("logit_opacities", np.nan),
    "colour NaN": ("sh0", np.nan),
    "colour Inf": ("sh0", np.inf),
    "harmonics NaN": ("shN", np.nan),
}


def poisons(seed: int, camera: Camera) -> Splats:
    """A splat for each of POISONS, all invisible by the rule that a projection must be finite."""
    rng = np.random.default_rng(seed)
    splats = ordinary(rng, camera, len(POISONS))
    middle = np.tile([camera.width / 2, camera.height / 2], (len(POISONS), 1))
    splats.means[:] = float32_exact(to_world(camera, middle, rng.uniform(1, 2, len(POISONS))))
    splats.log_scales[:] = -1
    splats.logit_opacities[:] = 3
    for row, (name, value) in enumerate(POISONS.values()):
        getattr(splats, name)[row] = value
    return splats
