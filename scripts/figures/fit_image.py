"""Fit a network to a photograph of 256x256 pixels, with coordinates, frequencies or the hash encoding as inputs.

    python scripts/figures/fit_image.py --out /tmp/fit_image [--image photograph.jpg] [--settings ours]

writes strips.png (the fits at 1, 10, 50, 100, 300 and 1,000 steps), curves.png and curves.json, with the shares of
time of optimiser and encoding (needs the extra `plots`). Hash encoding: 16 levels of up to 2^20 entries of 2 features,
from 2 cells per axis in steps of 2.2. Frequencies: sin and cos of 1 to 128 half periods across the picture. Both
use 4 hidden layers of 64; Adam at 0.01, gradient descent at 2.0; Huber's loss, linear from 0.05 on. Settings:

    \b
    source: sigmoid outputs; without encoding, 12 hidden layers of 64 and coordinates in [-0.0001, 0.0001], Adam 0.01,
            descent 0.5
    ours:   linear outputs; without encoding, 4 hidden layers of 64 and coordinates in [0, 1], Adam 0.01, descent 2.0
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from fitting import Coordinates, Encoding, Fit, Frequencies, Result, Setup, draw_curves, shares, write_results
from PIL import Image
from regression import HUBER

from splat_cli.device import Backend, DeviceArray, open_backend
from splat_cli.field.hash_grid import GridShape, HashGrid
from splat_cli.io.image_files import open_image
from splat_cli.render.images import to_8bit
from splat_cli.sample import make_sample_scene

HIDDEN = [64, 64, 64, 64]
OPTIMISERS = ("Adam", "gradient descent")
ENCODINGS = ("hash encoding", "frequencies", "no encoding")
NUM_FREQUENCIES = 8  # up to a period of two pixels
SHOWN = (1, 10, 50, 100, 300, 1000)  # steps
MEASURE_EVERY = 25  # steps


class HashEncoding:
    """The hash grid, for points in [0, 1]."""

    def __init__(self, backend: Backend, table_size: int) -> None:
        shape = GridShape(2, levels=16, table_size=table_size, features=2, base_resolution=2, growth=2.2)
        self.grid, self.width = HashGrid(backend, shape, np.random.default_rng(1)), shape.width
        self.trained, self.encode, self.backward = self.grid.parameters, self.grid.encode, self.grid.backward


@dataclass(frozen=True)
class Settings:
    sigmoid: bool
    plain_hidden: list[int]  # without encoding, like the next four fields
    plain: Coordinates
    plain_rates: dict[str, float]


RATES = {"Adam": 0.01, "gradient descent": 2.0}
# Coordinates arrive in [0, 1].
SETTINGS = {
    "source": Settings(True, 12 * [64], Coordinates(2, 2e-4, -1e-4), {"Adam": 0.01, "gradient descent": 0.5}),
    "ours": Settings(False, HIDDEN, Coordinates(2), RATES),
}


def encoding_and_setup(
    backend: Backend, settings: Settings, name: str, optimiser: str, table_size: int
) -> tuple[Encoding, Setup]:
    adam = optimiser == "Adam"
    if name == "no encoding":
        rate = settings.plain_rates[optimiser]
        return settings.plain, Setup(settings.plain_hidden, rate, settings.sigmoid, HUBER, adam)
    encoding: Encoding = Frequencies(backend.xp, 2, NUM_FREQUENCIES)
    if name == "hash encoding":
        encoding = HashEncoding(backend, table_size)
    return encoding, Setup(HIDDEN, RATES[optimiser], settings.sigmoid, HUBER, adam)


class ImageFit:
    """Colours of a picture [size, size, 3] at its pixels' centres, in [0, 1]; `batch` random pixels per step."""

    def __init__(self, fit: Fit, picture: np.ndarray) -> None:
        self.fit, self.picture, self.rng = fit, picture, np.random.default_rng(0)
        size = len(picture)
        row, column = np.mgrid[:size, :size]
        self.points = np.stack([column.ravel() + 0.5, row.ravel() + 0.5]).astype(np.float32) / size
        self.colors = np.ascontiguousarray(picture.reshape(-1, 3).T, np.float32)

    def batch(self) -> tuple[DeviceArray, DeviceArray]:
        pixels = self.rng.integers(len(self.points[0]), size=self.fit.network.rows)
        points, colors = (self.fit.backend.upload(table[:, pixels]) for table in (self.points, self.colors))
        return points, colors

    def render(self) -> np.ndarray:
        return self.fit.values(self.points).T.reshape(self.picture.shape)


def psnr(estimate: np.ndarray, picture: np.ndarray) -> float:
    return float(-10 * np.log10(((np.clip(estimate, 0, 1) - picture) ** 2).mean()))


def load_picture(path: Path | None, size: int) -> np.ndarray:
    """The middle square of a photograph, by default of one of the sample scene: float32 [size, size, 3]."""
    with tempfile.TemporaryDirectory() as folder:
        if path is None:
            path = make_sample_scene(folder, num_views=1, width=size, height=size) / "images" / "view_000.jpg"
        image = open_image(path).convert("RGB")
        side, (width, height) = min(image.size), image.size
        left, top = (width - side) // 2, (height - side) // 2
        image = image.resize((size, size), Image.Resampling.BOX, box=(left, top, left + side, top + side))
        return np.asarray(image, np.float32) / 255


def run(fit: Fit, picture: np.ndarray, name: str, steps: int) -> Result:
    """PSNR by step, pictures at some steps, and times after the last step."""
    image, result = ImageFit(fit, picture), Result(name)
    for number in range(1, steps + 1):
        fit.step(number, *image.batch())
        if number in SHOWN or number % MEASURE_EVERY == 0 or number == steps:
            estimate = image.render()
            result.curve.append((number, psnr(estimate, picture)))
            if number in SHOWN or number == steps:
                result.shown[number] = to_8bit(estimate)
    result.end(steps, "dB")
    for sparse in (True, False) if fit.encoding.trained else (True,):
        parts = fit.parts(steps + 1, *image.batch(), sparse)
        kind = "touched entries" if sparse else "all entries"
        result.extra[f"ms, optimiser on {kind}"] = parts
        percents = ", ".join(f"{part} {100 * share:.0f} %" for part, share in shares(parts).items())
        print(f"  optimiser on {kind}: {percents}; a step {sum(parts.values()):.2f} ms")
    return result


def draw_strips(results: list[Result], picture: np.ndarray, out: Path) -> None:
    """strips.png: a row for each fit, a column for each shown step; the photograph at the end."""
    from matplotlib import pyplot

    steps = sorted(results[0].shown)
    shape = (len(results), len(steps) + 1)
    figure, places = pyplot.subplots(
        *shape, figsize=(1.35 * shape[1], 1.5 * shape[0]), layout="constrained", squeeze=False
    )
    for k, (row, result) in enumerate(zip(places, results, strict=True)):
        pictures = [*((f"step {step:,}", result.shown[step]) for step in steps), ("photograph", to_8bit(picture))]
        for place, (title, pixels) in zip(row, pictures, strict=True):
            place.imshow(pixels)
            place.set(xticks=[], yticks=[])
            if k == 0:
                place.set_title(title, fontsize=8)
        row[0].set_ylabel(result.name.replace(", ", "\n"), fontsize=7)
    figure.savefig(out / "strips.png", dpi=100)
    pyplot.close(figure)


@click.command(help=__doc__)
@click.option("--out", type=Path, required=True)
@click.option("--image", type=Path, help="A photograph; its middle square is used.  [default: of the sample scene]")
@click.option("--settings", type=click.Choice(list(SETTINGS)), default="source", show_default=True)
@click.option("--encoding", "encodings", multiple=True, type=click.Choice(ENCODINGS), default=ENCODINGS)
@click.option("--steps", default=1000, show_default=True)
@click.option("--size", default=256, show_default=True, help="Width and height of the picture.")
@click.option("--batch", default=2**14, show_default=True, help="Pixels per step.")
@click.option("--table-size", default=2**20, show_default=True, help="Maximum number of entries per level.")
@click.option("--device", default="auto")
def main(
    out: Path,
    image: Path | None,
    settings: str,
    encodings: tuple[str, ...],
    steps: int,
    size: int,
    batch: int,
    table_size: int,
    device: str,
) -> None:
    backend, picture = open_backend(device), load_picture(image, size)
    print(f"{backend.describe()}; the picture's mean colour alone: {psnr(picture.mean((0, 1)), picture):.1f} dB")
    results = []
    for optimiser in OPTIMISERS:
        for name in encodings:
            parts = encoding_and_setup(backend, SETTINGS[settings], name, optimiser, table_size)
            results.append(run(Fit(backend, *parts, 3, batch), picture, f"{name}, {optimiser}", steps))
    out.mkdir(parents=True, exist_ok=True)
    write_results(results, out)
    draw_curves(results, out, "PSNR (dB)", ".1f", "linear")
    draw_strips(results, picture, out)


if __name__ == "__main__":
    main()
