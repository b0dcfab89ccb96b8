"""Fit a network to a function on the unit sphere, with coordinates, frequencies or spherical harmonics as inputs.

    python scripts/figures/fit_sphere.py --out /tmp/fit_sphere [--settings ours]

writes sphere.ply and sphere.png (points (x, y, z)(1 + 0.4 f): the truth and each fit, side by side), curves.png and
curves.json (needs the extra `plots`). The function is f = 0.5 (x, y, z) . (sin 2 pi x, cos 5 pi y, sin 2.5 pi z cos 3
pi z) + 0.5; one hidden layer of 64, Adam at 0.025; errors are mean squares on points outside of the training set.
Settings `source`: sigmoid outputs and Huber's loss, linear from 0.05 on. `ours`: linear outputs and squared errors,
because f leaves the range of a sigmoid.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from fitting import Coordinates, Encoding, Fit, Frequencies, Result, Setup, draw_curves, write_results
from plyfile import PlyData, PlyElement
from regression import HUBER, L2

from splat_cli.device import Backend, DeviceArray, open_backend
from splat_cli.field.hash_grid import encode_directions

NUM_FREQUENCIES = 4
MEASURE_EVERY = 25  # steps
SETTINGS = {
    "source": Setup([64], 0.025, sigmoid=True, loss=HUBER),
    "ours": Setup([64], 0.025, sigmoid=False, loss=L2),
}


class Harmonics:
    """Spherical harmonics of bands 0 to 3."""

    width, degree, trained = 16, 4, None

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def encode(self, points: DeviceArray, count: DeviceArray, inputs: DeviceArray) -> None:
        encode_directions(self.backend, points, count, self.degree, inputs)

    def backward(self, points: DeviceArray, count: DeviceArray, d_inputs: DeviceArray) -> None: ...


def function(points: np.ndarray) -> np.ndarray:
    """Values [N] at points [3, N] of the unit sphere."""
    x, y, z = np.pi * points
    waves = np.stack([np.sin(2 * x), np.cos(5 * y), np.sin(2.5 * z) * np.cos(3 * z)])
    return 0.5 * (points * waves).sum(axis=0) + 0.5


def random_points(rng: np.random.Generator, num: int) -> np.ndarray:
    points = rng.normal(size=(3, num))
    return points / np.linalg.norm(points, axis=0)


def spiral(num: int) -> np.ndarray:
    """Points spread evenly over the sphere, [3, num] (Gonzalez 2010)."""
    z = 1 - (2 * np.arange(num) + 1) / num
    angle, radius = np.pi * (3 - np.sqrt(5)) * np.arange(num), np.sqrt(1 - z**2)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), z])


def run(fit: Fit, name: str, steps: int, shown: np.ndarray) -> Result:
    """Mean squared error by step; values at the points `shown` after the last step."""
    result, rng = Result(name), np.random.default_rng(0)
    unseen = random_points(np.random.default_rng(1), 8192)
    for number in range(1, steps + 1):
        points = random_points(rng, fit.network.rows)
        targets = fit.backend.upload(function(points).astype(np.float32)[None])
        fit.step(number, fit.backend.upload(points.astype(np.float32)), targets)
        if number % MEASURE_EVERY == 0 or number == steps:
            result.curve.append((number, float(((fit.values(unseen)[0] - function(unseen)) ** 2).mean())))
    result.end(steps, "mean squared error")
    result.shown[steps] = fit.values(shown)[0]
    return result


def write_ply(path: Path, surfaces: dict[str, np.ndarray], points: np.ndarray) -> None:
    """Points (x, y, z)(1 + 0.4 f) of each surface, the surfaces 4 units apart along x; `surface` numbers them."""
    from matplotlib import colormaps

    rows = []
    for k, values in enumerate(surfaces.values()):
        table = np.zeros(
            len(values),
            [(axis, "f4") for axis in "xyz"]
            + [("value", "f4"), ("surface", "u1")]
            + [(channel, "u1") for channel in ("red", "green", "blue")],
        )
        table["x"], table["y"], table["z"] = points * (1 + 0.4 * values) + np.array([[4.0 * k], [0], [0]])
        table["value"], table["surface"] = values, k
        table["red"], table["green"], table["blue"] = (255 * colormaps["viridis"](values)[:, :3].T).astype(np.uint8)
        rows.append(table)
    comments = [f"surface {k}: {name}" for k, name in enumerate(surfaces)]
    PlyData([PlyElement.describe(np.concatenate(rows), "vertex")], comments=comments).write(str(path))


def draw_surfaces(path: Path, surfaces: dict[str, np.ndarray], points: np.ndarray) -> None:
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(3 * len(surfaces), 3.2), layout="constrained")
    for k, (name, values) in enumerate(surfaces.items()):
        axes: Any = figure.add_subplot(1, len(surfaces), k + 1, projection="3d")
        axes.scatter(*(points * (1 + 0.4 * values)), c=values, s=1, vmin=0, vmax=1)
        axes.set_title(name, fontsize=9)
        axes.set_box_aspect((1, 1, 1))
        axes.set_axis_off()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


@click.command(help=__doc__)
@click.option("--out", type=Path, required=True)
@click.option("--settings", type=click.Choice(list(SETTINGS)), default="source", show_default=True)
@click.option("--steps", default=1000, show_default=True)
@click.option("--batch", default=8192, show_default=True, help="Points per step.")
@click.option("--points", "num_points", default=20_000, show_default=True, help="Points per surface in sphere.ply.")
@click.option("--device", default="auto")
def main(out: Path, settings: str, steps: int, batch: int, num_points: int, device: str) -> None:
    backend, points = open_backend(device), spiral(num_points)
    truth = function(points)
    least = ((truth - np.clip(truth, 0, 1)) ** 2).mean()
    print(f"{backend.describe()}; f clipped to [0, 1]: mean squared error {least:.2g}")
    encodings: dict[str, Encoding] = {
        "spherical harmonics": Harmonics(backend),
        "frequencies": Frequencies(backend.xp, 3, NUM_FREQUENCIES),
        "no encoding": Coordinates(3),
    }
    results = [
        run(Fit(backend, encoding, SETTINGS[settings], 1, batch), name, steps, points)
        for name, encoding in encodings.items()
    ]
    out.mkdir(parents=True, exist_ok=True)
    write_results(results, out)
    draw_curves(results, out, "mean squared error", ".1e", "log")
    surfaces = {"truth": truth, **{result.name: result.shown[steps] for result in results}}
    write_ply(out / "sphere.ply", surfaces, points)
    draw_surfaces(out / "sphere.png", surfaces, points)


if __name__ == "__main__":
    main()
