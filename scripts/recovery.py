"""How much of what disturbed photographs cost do --pose-opt, --appearance and --robust bring back? Prints a table:

  python scripts/recovery.py poses SCENE --preset demo --device cpu

Three runs: on the scene as it is, with its training views disturbed, and with the disturbed ones refined.

poses: each training camera is turned about a random axis by half a degree and shifted in a random direction by 1 % of
the scene's extent. The held-out cameras keep the scene's poses, moved by the similarity that takes the training cameras
from the scene's poses to those that the run ended with: what is measured is how consistent the poses are, not where the
whole scene lies. "Off" is the mean difference between training cameras and the scene's, so moved. "Fitted" is measured
after the held-out cameras alone have been refined from there, on their photographs, by splats that stay as they are
(Lin et al. 2021, "BARF", sec. 4), in all three runs: all cameras may rotate together with the
splats, which leaves the loss unchanged.

intrinsics: all cameras, the held-out ones as well, have a focal length 3 % too long and a principal point off by 1 % of
it; the third run refines poses, the fourth poses and intrinsics. The held-out cameras follow as in `splat train`. "% of
focal length off" is that of the training cameras in the end.

distortion: all photographs, the held-out ones as well, are distorted by k1 = 0.05, as after undistortion by a lens with
another coefficient. The first run knows it, the third refines poses and intrinsics, the fourth radial distortion as
well. "k1 off" is the mean error of the training cameras' k1 in the end, "px off" how far, on average over the picture,
focal length and distortion place a direction from where the photograph shows it. --own-cameras: no two photographs that
are trained on share a camera.

exposure: each training photograph is made brighter or darker, by factors from 0.75 to 1.33 that differ by up to 10 %
between channels, and by an offset of up to 5 of 255. vignetting: the same, and darker towards its corners, by up to
40 % there, each about a centre of its own. camera: one camera for all photographs, the held-out ones as well: darker
by 45 % in the corners, of a response in the shape of an S, and with exposures of 0.5 stops and white balances of 0.15
(standard deviations), clipped at white. colors: the photographs stay as they are, and so does their own appearance.
walkers: two boxes of noise stand in each training photograph, half as high as it; --robust leaves them out, and
a fourth run is robust on the scene as it is.
The other disturbances leave the held-out photographs as they are. "Fitted" is measured on their right halves, after the
affine change of colour that fits the left half best, in all three runs; --appearance chooses the model that is trained
in the third.
"""

from __future__ import annotations

import dataclasses
import io
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.config.presets import load_config
from splat_cli.console import Display
from splat_cli.data.training_images import TrainingImages
from splat_cli.device import Backend, open_backend
from splat_cli.eval.evaluate import evaluate
from splat_cli.eval.metrics import mean_score
from splat_cli.gaussians.splats import Splats
from splat_cli.optim.loss import PhotometricLoss
from splat_cli.optim.poses import PoseRefinement, pose_decay
from splat_cli.render.blend import blend_backward
from splat_cli.render.iter_state import IterState
from splat_cli.render.pictures import background_color
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.run.setup.build_run_trainer import build_trainer_from_data
from splat_cli.run.setup.training_data import TrainingData, read_data
from splat_cli.scene.extent import scene_extent
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.lens.camera import Lens, Pinhole
from splat_cli.scene.lens.distortion import Polynomial
from splat_cli.scene.lens.undistort import undistort
from splat_cli.scene.poses import moved_intrinsics, moved_views, similarity_between
from splat_cli.scene.view import View
from splat_cli.train.refined_views import refined_views as following_views
from splat_cli.train.trainer import Trainer

DEGREES, SHARE = 0.5, 0.01
FOCAL_ERROR, K1_ERROR = 0.03, 0.05
OWN_ERRORS = 0.01, 0.02  # of focal lengths and principal points, in focal lengths, with a camera per photograph
VISITS, TRAVEL = 60, 0.5  # of each held-out camera, and by how many degrees it may turn in them


def wrong_poses(photographs: ImageSet, random: np.random.Generator) -> ImageSet:
    """Each camera turned by DEGREES and shifted by SHARE of the scene's extent, each in a direction of its own."""

    def vector(length: float) -> np.ndarray:
        direction = random.normal(size=3)
        return length * direction / np.linalg.norm(direction)

    shift = SHARE * scene_extent(photographs.views)
    offsets = [np.concatenate([vector(np.radians(DEGREES)), vector(shift)]) for _ in photographs.views]
    return photographs._replace(views=moved_views(photographs.views, np.array(offsets)))


def wrong_intrinsics(photographs: ImageSet, random: np.random.Generator) -> ImageSet:
    """Each camera with a focal length longer by FOCAL_ERROR and a principal point off by a third of that."""

    def disturbed(view: View) -> View:
        x, y = FOCAL_ERROR / 3 * view.fx, -FOCAL_ERROR / 3 * view.fy
        factor = 1 + FOCAL_ERROR
        return dataclasses.replace(view, fx=factor * view.fx, fy=factor * view.fy, cx=view.cx + x, cy=view.cy + y)

    return photographs._replace(views=[disturbed(view) for view in photographs.views])


def own_wrong_intrinsics(photographs: ImageSet, random: np.random.Generator) -> ImageSet:
    """Each view with errors of its own, OWN_ERRORS and of either sign: focal length, principal point."""
    errors = either_sign(OWN_ERRORS, (len(photographs.views), 3), random)
    return photographs._replace(views=[moved_intrinsics(*row) for row in zip(photographs.views, errors, strict=True)])


def either_sign(sizes: tuple[float, float], shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """Random numbers of these absolute values, every other one negative, in random order along the first axis."""
    signs = random.permuted(np.resize([1, -1], shape[0])[:, *[None] * (len(shape) - 1)] * np.ones(shape), axis=0)
    return signs * random.uniform(*sizes, shape)


def distorted(photographs: ImageSet, k1: Sequence[float]) -> ImageSet:
    """Each photograph as a lens shows it that sees slopes s at about s (1 + k1 |s|^2), and views that know it."""
    backend = open_backend("cpu")

    def seen(view: View, image: np.ndarray, k1: float) -> np.ndarray:
        camera = view.width, view.height, view.fx, view.fy, view.cx, view.cy
        return undistort(backend, Lens(*camera, Polynomial((-k1,))), image, pinhole=Pinhole(*camera))[0]

    images = [seen(*row) for row in zip(photographs.views, photographs.images, k1, strict=True)]
    views = [dataclasses.replace(view, radial=(k, 3 * k**2)) for view, k in zip(photographs.views, k1, strict=True)]
    return photographs._replace(views=views, images=images)  # k2: of the inverse series


def with_distortion(data: TrainingData, own_cameras: bool, seed: int) -> TrainingData:
    """Photographs distorted by K1_ERROR, or the training ones by half of it to all of it, of either sign, each."""
    assert data.held_out is not None
    num, random = len(data.training.views), np.random.default_rng(seed)
    if own_cameras:
        k1 = either_sign((K1_ERROR / 2, K1_ERROR), (num,), random)
        return dataclasses.replace(data, training=distorted(data.training, list(k1)))
    held_out = distorted(data.held_out, [K1_ERROR] * len(data.held_out.views))
    return dataclasses.replace(data, training=distorted(data.training, [K1_ERROR] * num), held_out=held_out)


def without_distortion(photographs: ImageSet, random: np.random.Generator) -> ImageSet:
    """Views that do not know the distortion of their photographs."""
    return photographs._replace(views=[dataclasses.replace(view, radial=(0.0, 0.0)) for view in photographs.views])


def lens_error(true: View, view: View) -> float:
    """Mean distance in pixels, over the picture, between where both lenses show a direction."""
    x, y = np.meshgrid(
        (np.arange(true.width) + 0.5 - true.cx) / true.fx, (np.arange(true.height) + 0.5 - true.cy) / true.fy
    )
    r2 = x**2 + y**2
    scales = [camera.fx * (1 + camera.radial[0] * r2 + camera.radial[1] * r2**2) for camera in (true, view)]
    return float(np.mean(np.abs(scales[0] - scales[1]) * np.sqrt(r2)))


def wrong_exposures(photographs: ImageSet, random: np.random.Generator) -> ImageSet:
    """Each photograph with other factors and another offset."""

    def exposed(image: np.ndarray) -> np.ndarray:
        factors = 0.75 ** random.uniform(-1, 1) * 1.05 ** random.uniform(-1, 1, 3)
        return np.clip(np.rint(image * factors + random.uniform(-5, 5)), 0, 255).astype(np.uint8)

    return photographs._replace(images=[exposed(image) for image in photographs.images])


def vignetted(photographs: ImageSet, random: np.random.Generator) -> ImageSet:
    """As `wrong_exposures`, and each darker with the squared distance from a centre of its own."""

    def darkened(image: np.ndarray) -> np.ndarray:
        height, width = image.shape[:2]
        x, y = ((np.arange(size) + 0.5) / size - random.uniform(0.4, 0.6) for size in (width, height))
        radius2 = (x[None, :] ** 2 + y[:, None] ** 2) / 0.5  # 1 at the corners, about
        return np.rint(image * (1 - random.uniform(0, 0.4) * np.minimum(radius2, 1))[..., None]).astype(np.uint8)

    exposed = wrong_exposures(photographs, random)
    return exposed._replace(images=[darkened(image) for image in exposed.images])


def by_one_camera(photographs: ImageSet, random: np.random.Generator) -> ImageSet:
    """Each with an exposure and a white balance of its own, and all with the vignetting and response of one camera."""

    def taken(image: np.ndarray) -> np.ndarray:
        height, width = image.shape[:2]
        x, y = ((np.arange(size) + 0.5 - size / 2) / np.hypot(width, height) * 2 for size in (width, height))
        r2 = (x[None, :] - 0.05) ** 2 + (y[:, None] + 0.03) ** 2
        gains = 2 ** (random.normal(0, 0.5) + random.normal(0, 0.15, 3))
        light = np.clip(image / 255 * gains * (1 - 0.5 * r2 + 0.05 * r2**2)[..., None], 0, 1)
        return np.rint(255 * (light - 0.5 * light * (1 - light) * (1 - 2 * light))).astype(np.uint8)

    return photographs._replace(images=[taken(image) for image in photographs.images])


def with_walkers(photographs: ImageSet, random: np.random.Generator) -> ImageSet:
    """Each photograph with two boxes before the scene, each of noise of its own about a colour of its own."""

    def crossed(image: np.ndarray) -> np.ndarray:
        image, (height, width) = image.copy(), image.shape[:2]
        for _ in range(2):
            h, w = (np.array([0.5, 0.18]) * random.uniform(0.7, 1.3) * height).astype(int)
            y, x = random.integers(0, height - h), random.integers(0, width - w)
            texture = random.integers(0, 256, 3) + random.normal(0, 20, (h, w, 3))
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
    "colors": lambda photographs, random: photographs,
}


LENSES = "intrinsics", "distortion"  # held-out views follow the refined ones of their cameras


def with_own_cameras(photographs: ImageSet) -> ImageSet:
    """Without cameras in common."""
    views = [dataclasses.replace(view, camera_id=-1 - number) for number, view in enumerate(photographs.views)]
    return photographs._replace(views=views)


def disturb(what: str, data: TrainingData, seed: int, own_cameras: bool = False) -> TrainingData:
    """The data with its training photographs disturbed; by a common camera, the held-out ones as well."""
    random, held_out = np.random.default_rng(seed), data.held_out
    if own_cameras and what == "intrinsics":
        return dataclasses.replace(data, training=own_wrong_intrinsics(data.training, random))
    training = DISTURB[what](data.training, random)
    if what in ("camera", *LENSES) and held_out is not None and not own_cameras:
        held_out = DISTURB[what](held_out, random)
    return dataclasses.replace(data, training=training, held_out=held_out)


def train(
    what: str, data: TrainingData, disturbed: TrainingData, config: TrainConfig, fit: str, backend: Backend
) -> list[str]:
    """PSNR and SSIM on the held-out photographs, both fitted as well, and how far off the poses are, as text."""
    assert disturbed.held_out is not None
    trainer = build_trainer_from_data(disturbed, config, backend, Display(io.StringIO()))
    trainer.run_until(trainer.config.steps)
    final = trainer.auxiliary.refined_views() or disturbed.training.views
    moved = similarity_between(data.training.views, final)
    views = [moved.apply(view) for view in disturbed.held_out.views]
    if what in LENSES:
        views = following_views(trainer, disturbed.held_out.views)
    held_out = disturbed.held_out._replace(views=views)
    measured = dataclasses.replace(config, appearance=fit)
    columns = scores(what, trainer, held_out, measured)
    pairs = [(moved.apply(view), other) for view, other in zip(data.training.views, final, strict=True)]
    rotation = np.mean([angle(a, b) for a, b in pairs])
    translation = np.mean([np.linalg.norm(a.center - b.center) for a, b in pairs]) / scene_extent(final)
    focal = np.mean([abs(b.fx / a.fx - 1) for a, b in zip(data.training.views, final, strict=True)])
    pairs = list(zip(data.training.views, final, strict=True))
    distortion = np.mean([abs(b.radial[0] - a.radial[0]) for a, b in pairs])
    lens = np.mean([lens_error(a, b) for a, b in pairs])
    errors = f"{rotation:.3f}", f"{100 * translation:.2f}", f"{100 * focal:.2f}", f"{distortion:.4f}", f"{lens:.2f}"
    return [*columns, *errors]


def scores(what: str, trainer: Trainer, held_out: ImageSet, config: TrainConfig) -> list[str]:
    """PSNR and SSIM on the photographs, and both fitted."""
    backend, splats, responses = trainer.backend, trainer.splats, trainer.auxiliary.camera_responses()
    score = mean_score(evaluate(backend, splats, held_out, config, responses=responses).values())
    fitted = score.fitted_psnr, score.fitted_ssim
    if what in ("poses", *LENSES):
        refined = held_out._replace(views=refined_views(backend, splats, held_out, config, trainer.extent))
        best = mean_score(evaluate(backend, splats, refined, config).values())
        fitted = best.psnr, best.ssim
    return [f"{score.psnr:.2f}", f"{score.ssim:.4f}", f"{fitted[0]:.2f}", f"{fitted[1]:.4f}"]


def refined_views(
    backend: Backend, splats: Splats, photographs: ImageSet, config: TrainConfig, extent: float
) -> list[View]:
    """The views from where the splats look most like the photographs: Adam on one after the other, round by round."""
    images = TrainingImages(backend, photographs, order=np.zeros(0, np.int32))
    cameras = images.cameras
    num_views = len(cameras.views)
    steps = VISITS * num_views
    raster = Rasterizer(backend, cameras, splats.capacity, training=True, antialias=config.antialias)
    loss = PhotometricLoss(backend, cameras, config.ssim_weight)
    poses = PoseRefinement(backend, cameras, pose_decay(TRAVEL, num_views, steps), extent)
    background = background_color(config.background)
    state = IterState(backend, num_splats=splats.num, sh_degree=splats.sh_degree, background=background)
    step = 0
    while step < steps:
        state.clear_counts()
        state.write(step=step + 1, view=step % num_views)
        state.write(loss_l1=0, loss_l2=0, loss_ssim=0)
        raster.forward(splats, state)
        loss.forward(state, raster.picture.image)
        loss.backward(state, raster.picture.image, raster.picture.d_image)
        blend_backward(cameras, state, raster.projection, raster.tiles, raster.picture, absgrad=False)
        poses.accumulate(splats, state, raster, None)
        poses.step(state)
        step += not raster.grow_if_overflowed(state)  # where it did, nothing was done
    return poses.refined_views()


def angle(a: View, b: View) -> float:
    """Degrees between two cameras' axes."""
    difference = np.linalg.norm(a.w2c[:3, :3] - b.w2c[:3, :3])  # 2 sqrt(2) sin(angle / 2)
    return float(np.degrees(2 * np.arcsin(min(difference / np.sqrt(8), 1))))


@click.command()
@click.argument("what", type=click.Choice(list(DISTURB)))
@click.argument("scene", type=Path)
@click.option("--preset", help="Name of a preset, or a TOML file.")
@click.option("--steps", type=int)
@click.option("--seed", type=int, default=0)
@click.option("--appearance", type=click.Choice(["exposure", "grid", "camera"]), default="exposure", show_default=True)
@click.option("--downscale", type=int, default=1)
@click.option("--set", "changes", multiple=True, metavar="KEY=NUMBER", help="A setting of the refined run.")
@click.option("--only", help="One of the three runs, by its name in the table.")
@click.option("--own-cameras", is_flag=True, help="A camera for each training photograph.")
@click.option("--device", default="auto")
def main(
    what: str, scene: Path, preset: str | None, steps: int | None, seed: int, appearance: str, downscale: int,
    own_cameras: bool, changes: tuple[str, ...], only: str | None, device: str,
) -> None:  # fmt: skip
    settings: dict[str, Any] = {"eval": True, "seed": seed, "downscale": downscale} | (
        {"steps": steps} if steps else {}
    )
    config = load_config(preset, settings)
    refining: dict[str, Any] = {
        "poses": {"pose_opt": True}, "intrinsics": {"pose_opt": True},
        "distortion": {"pose_opt": True, "refine_intrinsics": True}, "walkers": {"robust": True}
    }.get(what, {"appearance": appearance})  # fmt: skip
    refining |= {key: float(value) for key, _, value in (change.partition("=") for change in changes)}
    backend = open_backend(device)
    data = read_data(scene, config, backend, Display(io.StringIO()))
    if what == "distortion":
        data = with_distortion(data, own_cameras, seed)
    if own_cameras:
        data = dataclasses.replace(data, training=with_own_cameras(data.training))
    fit = "none" if what in ("poses", *LENSES) else appearance
    wrong = disturb(what, data, seed, own_cameras)
    runs = {"as it is": (data, config), "disturbed": (wrong, config)}
    runs["refined"] = (wrong, load_config(preset, settings | refining))
    print(f"| {what} | PSNR | SSIM | PSNR fitted | SSIM fitted | degrees off | % of extent off | "
          "% of focal length off | k1 off | px off | s |\n|" + " --- |" * 11)  # fmt: skip
    if what == "colors":
        del runs["disturbed"]
    if what == "intrinsics":
        runs["refined with intrinsics"] = wrong, load_config(preset, settings | refining | {"refine_intrinsics": True})
    if what == "distortion":
        runs["refined with distortion"] = wrong, load_config(preset, settings | refining | {"refine_distortion": True})
    if what in LENSES:  # what it costs where cameras are right
        runs["refined as it is"] = data, runs["refined"][1]
        runs[f"refined with {what} as it is"] = data, runs[f"refined with {what}"][1]
    if what == "walkers":  # what it costs where nobody came by
        runs["robust as it is"] = (data, runs["refined"][1])
    for name, (disturbed, chosen) in runs.items():
        if only in (None, name):
            begin = time.perf_counter()
            columns = train(what, data, disturbed, chosen, fit, backend)
            print(f"| {name} | {' | '.join(columns)} | {time.perf_counter() - begin:.0f} |", flush=True)


if __name__ == "__main__":
    main()
