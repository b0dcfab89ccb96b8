"""Score runs on held-out photographs with the lens that took them, whatever the runs were trained on.

    python scripts/bench/lens_scores.py SCENE RUN...

Prints the PSNR of all pixels that the lens sees, and of rings by their angle to the axis. With `--lens undistort` a
run sees only a part of each photograph: this shows what it lacks. The last columns are the PSNR of undistorted
photographs: each run is rendered as it was trained, and pictures with a lens are then undistorted ("undistorted"); or
by a pinhole camera, as viewers show it ("pinhole").
"""

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from splat_cli.device import Backend, open_backend
from splat_cli.gaussians.ply import read_ply
from splat_cli.gaussians.splats import Splats
from splat_cli.render.images import to_8bit
from splat_cli.render.view import ViewRenderer
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.dataset import SceneOptions
from splat_cli.scene.images.image_set import ImageSet, load_images
from splat_cli.scene.lens import Lens, Pinhole, undistort
from splat_cli.scene.read import read_scene
from splat_cli.scene.split import split

RINGS = (0, 30, 60, 85, 180)


def main() -> None:
    """Print a table: a row per run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    backend = open_backend(options.device)
    config = RunDir(options.runs[0]).config()
    photographs, undistorted = (
        load_images(split(scene.views, config.test_every)[1], backend=backend)
        for scene in (
            read_scene(options.scene, SceneOptions(lens=lens, downscale=config.downscale))
            for lens in ("keep", "undistort")
        )
    )
    angles = [np.degrees(np.arccos(np.clip(view.rays()[..., 2], -1, 1))) for view in photographs.views]
    rings = " ".join(f"{a:>3}-{b:<3}" for a, b in itertools.pairwise(RINGS))
    print(f"{'run':30} {'all':>7} {rings} {'undistorted':>11} {'pinhole':>7}")
    for folder in options.runs:
        run = RunDir(folder)
        keeps = run.config().lens == "keep"
        values = scores(backend, run, photographs, angles)
        ends = [undistorted_score(backend, run, photographs, undistorted, through) for through in (keeps, False)]
        cells = " ".join(f"{value:7.2f}" for value in values)
        print(f"{folder.name:30} {cells} {ends[0]:11.2f} {ends[1]:7.2f}", flush=True)


def undistorted_score(
    backend: Backend, run: RunDir, photographs: ImageSet, undistorted: ImageSet, keeps: bool
) -> float:
    """Mean PSNR in dB of the undistorted photographs; keeps: rendered through the lens first."""
    renderer = renderer_of(backend, run, photographs if keeps else undistorted)
    found = []
    for index, (view, pinhole) in enumerate(zip(photographs.views, undistorted.views, strict=True)):
        picture, mask = to_8bit(renderer.render(index, run.background())), undistorted.masks[index]
        if keeps:
            lens = Lens(view.width, view.height, view.fx, view.fy, view.cx, view.cy, view.distortion)
            camera = Pinhole(pinhole.width, pinhole.height, pinhole.fx, pinhole.fy, pinhole.cx, pinhole.cy)
            picture, _ = undistort(backend, lens, picture, None, camera)
        errors = (picture.astype(float) - undistorted.images[index]) ** 2
        found.append(-10 * np.log10((errors if mask is None else errors[mask > 0]).mean() / 255**2))
    return float(np.mean(found))


def renderer_of(backend: Backend, run: RunDir, photographs: ImageSet) -> ViewRenderer:
    """Renders the splats of a run from the views of photographs."""
    splats = Splats.from_arrays(backend, read_ply(run.ply_path(run.saved_steps()[-1])))
    return ViewRenderer(backend, splats, photographs.views, run.config().antialias)


def scores(backend: Backend, run: RunDir, photographs: ImageSet, angles: Sequence[np.ndarray]) -> list[float]:
    """PSNR in dB of all pixels, and of each ring: mean over photographs. angles: of pixels to the axis, degrees."""
    renderer = renderer_of(backend, run, photographs)
    found = []
    for index, (photo, mask, angle) in enumerate(zip(photographs.images, photographs.masks, angles, strict=True)):
        errors = (to_8bit(renderer.render(index, run.background())).astype(float) - photo) ** 2
        used = np.isfinite(angle) if mask is None else mask > 0
        rings = [used & (angle >= a) & (angle < b) for a, b in itertools.pairwise(RINGS)]
        found.append(
            [-10 * np.log10(errors[ring].mean() / 255**2) if ring.any() else np.nan for ring in [used, *rings]]
        )
    return [
        float(np.mean(ring[np.isfinite(ring)])) if np.isfinite(ring).any() else np.nan for ring in np.transpose(found)
    ]


if __name__ == "__main__":
    main()
