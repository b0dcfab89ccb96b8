"""Time to decode, undistort and shrink photographs, and the effect of decoding at a reduced scale.

    python scripts/bench/bench_images.py [--size 4000x3000] [--count 8] [--device cpu]

Writes synthetic JPEG files into a temporary folder: octaves of noise as in natural images, sharp edges, sensor noise.
Seconds are CPU time per photograph. PSNR compares with decoding and filtering all pixels.
"""

import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np
from PIL import Image, ImageDraw

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from splat_cli.device import Backend, open_backend
from splat_cli.eval.metrics import psnr
from splat_cli.scene.colmap.model import Camera, lens_of
from splat_cli.scene.images.decode import decode_jpeg, reduced
from splat_cli.scene.images.image_set import load_images
from splat_cli.scene.lens import Lens, undistort
from splat_cli.scene.view import View

DOWNSCALES = (1, 2, 4, 8)


@click.command(help=__doc__)
@click.option("--size", default="4000x3000")
@click.option("--count", default=8, help="Number of photographs.")
@click.option("--device", default="cpu")
def main(size: str, count: int, device: str) -> None:
    """Print a table for photographs without and with a lens."""
    width, height = (int(side) for side in size.split("x"))
    focal = 0.9 * width
    lens = lens_of(Camera(1, "SIMPLE_RADIAL", width, height, (focal, width / 2, height / 2, -0.08)))
    backend = open_backend(device)
    with tempfile.TemporaryDirectory() as folder:
        paths = [synthetic_photo(Path(folder) / f"{i}.jpg", width, height, i) for i in range(count)]
        print_decoding(paths[0], (width, height))
        print(f"{'':12} {'size':>11} {'CPU s':>8} {'wall s':>8} {'PSNR, dB':>9}")
        for label, distorted in (("pinhole", None), ("with a lens", lens)):
            for downscale in DOWNSCALES:
                print_row(label, paths, distorted, (width, height), downscale, backend)


def print_decoding(path: Path, size: tuple[int, int]) -> None:
    """CPU seconds of decoding alone."""
    content = path.read_bytes()
    for factor in DOWNSCALES:
        start = time.process_time()
        decode_jpeg(content, factor)
        seconds = time.process_time() - start
        print(f"decoding to {'x'.join(map(str, reduced(size, factor))):>11} {seconds:8.3f} s")


def print_row(
    label: str, paths: list[Path], lens: Lens | None, full: tuple[int, int], downscale: int, backend: Backend
) -> None:
    """CPU and wall seconds per photograph, and the PSNR of the first."""
    pinhole = lens.pinhole if lens else None
    whole = (pinhole.width, pinhole.height) if pinhole else full
    size = whole[0] // downscale, whole[1] // downscale
    views = [View(p.name, p, *size, 1.0, 1.0, 0.0, 0.0, np.eye(4), lens=lens) for p in paths]
    load_images(views[:1], backend=backend)  # compiles
    cpu, wall = time.process_time(), time.perf_counter()
    images = load_images(views, backend=backend).images
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    pixels = decode_jpeg(paths[0].read_bytes())
    assert pixels is not None
    if lens:
        pixels, _ = undistort(backend, lens, pixels)
    expected = np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS))
    shape = f"{size[0]}x{size[1]}"
    print(f"{label:12} {shape:>11} {cpu / len(paths):8.3f} {wall / len(paths):8.3f} {psnr(images[0], expected):9.1f}")


def synthetic_photo(path: Path, width: int, height: int, seed: int) -> Path:
    """A JPEG file of quality 92 with halved colours (4:2:0), as phones write them."""
    rng = np.random.default_rng(seed)
    total = np.zeros((height, width, 3), np.float32)
    for octave in range(1, 11):
        noise = rng.normal(size=(3 * 2**octave // 4 + 2, 2**octave + 2, 3)).astype(np.float32)
        planes = [Image.fromarray(noise[..., c]).resize((width, height), Image.Resampling.BICUBIC) for c in range(3)]
        total += np.stack([np.asarray(plane) for plane in planes], axis=-1) * 2.0 ** (-octave / 2)
    grey = total.mean(axis=-1, keepdims=True)
    total = grey + 0.4 * (total - grey)
    picture = Image.fromarray(np.clip(total / total.std() * 50 + 120, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    for _ in range(300):
        x, y, w, h = (int(v) for v in rng.integers([0, 0, 5, 5], [width, height, 300, 300]))
        draw.rectangle((x, y, x + w, y + h), fill=tuple(int(v) for v in rng.integers(0, 255, 3)))
    noisy = np.asarray(picture) + rng.normal(0, 2, (height, width, 1))
    Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).save(path, quality=92, subsampling=2)
    return path


if __name__ == "__main__":
    main()
