"""Measure the loss of each file format on a run's splats: the table in docs/experiments/formats.md.

For each format: maximum difference of each property from the standard PLY, bytes per splat, and PSNR of renders of
held-out views, against renders of the PLY and against the photographs. Example:

  splat demo demo && python scripts/bench/measure_formats.py demo/run --scene demo/scene
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend, open_backend
from splat_cli.gaussians.arrays import SH_C0, SplatArrays, opacities
from splat_cli.gaussians.editing.edits import in_morton_order
from splat_cli.gaussians.formats import FORMATS, read_splats, write_splats
from splat_cli.gaussians.splats import Splats
from splat_cli.render.images import background_color, to_8bit
from splat_cli.render.view import ViewRenderer
from splat_cli.run.storage.find_run import find_splats, open_run
from splat_cli.scene.dataset import SceneOptions
from splat_cli.scene.images.image_set import ImageSet, load_images
from splat_cli.scene.read import read_scene


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True))
@click.option("--scene", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--device", default="auto", show_default=True)
def main(run: Path, scene: Path, device: str) -> None:
    """Print a line of the table for each format."""
    backend = open_backend(device)
    config = open_run(run).config()
    names = {view.name for view in open_run(run).views("test")}
    views = [view for view in read_scene(scene, SceneOptions()).views if view.name in names]
    photographs = load_images(views)
    source = in_morton_order(read_splats(find_splats(run)[0]))
    reference = render(backend, source, photographs, config)
    print(f"{len(source):,} splats, {len(views)} views")
    with TemporaryDirectory() as folder:
        for name, kind in FORMATS.items():
            path = Path(folder, f"a{kind.suffix}")
            write_splats(path, source)
            splats = read_splats(path)
            pictures = render(backend, splats, photographs, config)
            to_ply = mean_psnr(pictures, reference)
            to_photographs = mean_psnr(pictures, list(photographs.images))
            size = path.stat().st_size / len(source)
            errors = " | ".join(f"{error:.2g}" for error in differences(source, splats))
            print(f"| {name} | {size:.1f} | {errors} | {to_ply:.1f} | {to_photographs:.2f} |")


def render(backend: Backend, splats: SplatArrays, photographs: ImageSet, config: TrainConfig) -> list[np.ndarray]:
    """Pictures uint8 [H, W, 3] of all views, as in training."""
    renderer = ViewRenderer(backend, Splats.from_arrays(backend, splats), photographs.views, config.antialias)
    background = background_color(config.background)
    return [to_8bit(renderer.render(index, background)) for index in range(len(photographs.views))]


def mean_psnr(pictures: list[np.ndarray], others: list[np.ndarray]) -> float:
    """PSNR over all channels of each pair of pictures, averaged; infinite if one pair is equal."""
    squared = [np.mean((a.astype(float) - b) ** 2) for a, b in zip(pictures, others, strict=True)]
    with np.errstate(divide="ignore"):
        return float(np.mean(10 * np.log10(255**2 / np.array(squared))))


def differences(a: SplatArrays, b: SplatArrays) -> list[float]:
    """Maximum differences of position, log scale, rotation (degrees), opacity, colour, higher coefficients."""
    units = [s.quats.astype(float) / np.linalg.norm(s.quats.astype(float), axis=1, keepdims=True) for s in (a, b)]
    apart = np.minimum(np.linalg.norm(units[0] - units[1], axis=1), np.linalg.norm(units[0] + units[1], axis=1))
    k = b.shN.shape[1]
    lost = np.abs(a.shN[:, k:]).max(initial=0)
    pairs = (
        a.means - b.means,
        a.log_scales - b.log_scales,
        np.degrees(4 * np.arcsin(np.minimum(apart / 2, 1))),
        opacities(a) - opacities(b),
        SH_C0 * (a.sh0 - b.sh0),
        a.shN[:, :k] - b.shN,
    )
    errors = [float(np.abs(pair).max(initial=0)) for pair in pairs]
    return [*errors[:-1], max(errors[-1], float(lost))]


if __name__ == "__main__":
    main()
