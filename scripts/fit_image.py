"""Fit a photograph of 256x256 pixels by a network, with and without the hash encoding: what the encoding is worth.

    python scripts/fit_image.py --out /tmp/fit_image [--image photograph.jpg]

writes curves.png, pictures.png and curves.json (needs matplotlib). 16 levels of up to 2^20 entries of 2 features,
from 2 cells an axis in steps of 2.2; 4 hidden layers of 64; Huber's loss, linear from 0.05 on; Adam at 0.01, plain
gradient descent at 2.0.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
from PIL import Image

from splat_cli.device import Backend, open_backend
from splat_cli.field.hash_grid import GridShape, HashGrid
from splat_cli.field.network import Network
from splat_cli.field.parameters import adam_bias
from splat_cli.field.regression import HUBER, regression_loss
from splat_cli.image_files import open_image
from splat_cli.render.iter_state import IterState
from splat_cli.render.pictures import to_8bit
from splat_cli.scene.sample import make_sample_scene

SIZE = 256
SHAPE = GridShape(2, levels=16, table_size=2**20, features=2, base_resolution=2, growth=2.2)
HIDDEN = [64, 64, 64, 64]
RATES = {"Adam": 0.01, "gradient descent": 2.0}
MEASURE_EVERY = 50  # steps


class ImageFit:
    """A network from pixel positions, encoded or not, to colours; `batch` random pixels a step."""

    def __init__(self, backend: Backend, picture: np.ndarray, encoded: bool, optimiser: str, batch: int) -> None:
        self.backend, self.adam, self.picture = backend, optimiser == "Adam", picture
        self.random = np.random.default_rng(0)
        row, column = np.mgrid[:SIZE, :SIZE]
        self.points = np.stack([column.ravel() + 0.5, row.ravel() + 0.5]).astype(np.float32) / SIZE
        self.colors = np.ascontiguousarray(picture.reshape(-1, 3).T, np.float32)
        self.grid = HashGrid(backend, SHAPE, self.random) if encoded else None
        self.network = Network(backend, [SHAPE.width if encoded else 2, *HIDDEN, 3], batch, self.random)
        self.state = IterState(backend, lr=[RATES[optimiser]] * 6)
        self.loss = backend.upload(np.zeros(1, np.float32))
        self.count = backend.upload(np.array([batch], np.uint32))

    def forward(self, points: Any) -> None:
        if self.grid:
            self.grid.encode(points, self.count, self.network.inputs)
        else:
            self.network.inputs[...] = points
        self.network.forward(self.count)

    def step(self, number: int) -> None:
        pixels = self.random.integers(len(self.points[0]), size=self.network.rows)
        points, colors = (self.backend.upload(table[:, pixels]) for table in (self.points, self.colors))
        self.forward(points)
        regression_loss(self.network, colors, self.count, self.loss, HUBER, 0.05)
        self.network.backward(self.count, to_inputs=self.grid is not None)
        self.state.write(**adam_bias(number))
        if self.grid:
            self.grid.backward(points, self.count, self.network.d_inputs)
            self.grid.parameters.adam_flat(self.state, 0, sparse=True, adam=self.adam)
        self.network.parameters.adam_flat(self.state, 0, adam=self.adam)

    def render(self) -> np.ndarray:
        """The picture, float32 [SIZE, SIZE, 3], in batches."""
        parts = []
        for begin in range(0, SIZE * SIZE, self.network.rows):
            points = np.resize(self.points[:, begin : begin + self.network.rows], (2, self.network.rows))
            self.forward(self.backend.upload(points))
            parts.append(self.backend.download(self.network.outputs)[:3])
        return np.concatenate(parts, axis=1)[:, : SIZE * SIZE].T.reshape(SIZE, SIZE, 3)

    def psnr(self) -> float:
        return float(-10 * np.log10(((np.clip(self.render(), 0, 1) - self.picture) ** 2).mean()))


def load_picture(path: Path | None) -> np.ndarray:
    """The middle square of a photograph, by default of one of the sample scene: float32 [SIZE, SIZE, 3]."""
    with tempfile.TemporaryDirectory() as folder:
        if path is None:
            path = make_sample_scene(folder, num_views=1, width=SIZE, height=SIZE) / "images" / "view_000.jpg"
        image = open_image(path).convert("RGB")
        side, (width, height) = min(image.size), image.size
        left, top = (width - side) // 2, (height - side) // 2
        image = image.resize((SIZE, SIZE), Image.Resampling.BOX, box=(left, top, left + side, top + side))
        return np.asarray(image, np.float32) / 255


def run(backend: Backend, picture: np.ndarray, encoded: bool, optimiser: str, steps: int, batch: int) -> dict[str, Any]:
    """PSNR by step, and the last picture."""
    fit, curve, begin = ImageFit(backend, picture, encoded, optimiser, batch), [], time.perf_counter()
    for number in range(1, steps + 1):
        fit.step(number)
        if number % MEASURE_EVERY == 0 or number == steps:
            curve.append((number, fit.psnr()))
    name = f"{'hash encoding' if encoded else 'no encoding'}, {optimiser}"
    print(f"{name}: {curve[-1][1]:.2f} dB after {steps} steps, {time.perf_counter() - begin:.0f} s", flush=True)
    return {"name": name, "curve": curve, "picture": to_8bit(fit.render())}


def draw(results: list[dict[str, Any]], picture: np.ndarray, out: Path) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    for result in results:
        axes.plot(*zip(*result["curve"], strict=True), label=f"{result['name']}: {result['curve'][-1][1]:.1f} dB")
    axes.set(xlabel="step", ylabel="PSNR (dB)")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(out / "curves.png", dpi=110)
    shown = [("photograph", to_8bit(picture)), *((result["name"], result["picture"]) for result in results)]
    figure, places = pyplot.subplots(1, len(shown), figsize=(2.6 * len(shown), 2.9), layout="constrained")
    for place, (name, pixels) in zip(places, shown, strict=True):
        place.imshow(pixels)
        place.set_title(name, fontsize=8)
        place.axis("off")
    figure.savefig(out / "pictures.png", dpi=110)


@click.command(help=__doc__)
@click.option("--out", type=Path, required=True)
@click.option("--image", type=Path, help="A photograph; its middle square is used.  [default: of the sample scene]")
@click.option("--steps", default=1000)
@click.option("--batch", default=SIZE * SIZE // 4, show_default=True, help="Pixels a step.")
@click.option("--device", default="auto")
def main(out: Path, image: Path | None, steps: int, batch: int, device: str) -> None:
    backend, picture = open_backend(device), load_picture(image)
    print(backend.describe())
    results = [run(backend, picture, encoded, name, steps, batch) for name in RATES for encoded in (True, False)]
    out.mkdir(parents=True, exist_ok=True)
    curves = {result["name"]: result["curve"] for result in results}
    (out / "curves.json").write_text(json.dumps(curves))
    draw(results, picture, out)


if __name__ == "__main__":
    main()
