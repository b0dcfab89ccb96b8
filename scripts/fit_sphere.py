"""Fit a function on the unit sphere by a network, with and without the spherical-harmonics encoding of its argument.

    python scripts/fit_sphere.py --out /tmp/fit_sphere

writes curves.png, pictures.png and curves.json (needs matplotlib). The function is
0.5 (x, y, z) . (sin 2 pi x, cos 5 pi y, sin 2.5 pi z cos 3 pi z) + 0.5; one hidden layer of 64, Adam at 0.025; errors
are those on points that training does not see.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from splat_cli.device import Backend, open_backend
from splat_cli.field.directions import encode_directions
from splat_cli.field.network import Network
from splat_cli.field.parameters import adam_bias
from splat_cli.field.regression import L2, regression_loss
from splat_cli.render.iter_state import IterState

DEGREE = 4
HIDDEN = 64
RATE = 0.025
BATCH = 8192
MEASURE_EVERY = 25  # steps
MAP = (64, 128)  # latitudes and longitudes of the pictures


def function(points: np.ndarray) -> np.ndarray:
    """Values [N] at points [3, N] of the unit sphere."""
    x, y, z = np.pi * points
    waves = np.stack([np.sin(2 * x), np.cos(5 * y), np.sin(2.5 * z) * np.cos(3 * z)])
    return 0.5 * (points * waves).sum(axis=0) + 0.5


def random_points(random: np.random.Generator, num: int) -> np.ndarray:
    points = random.normal(size=(3, num))
    return points / np.linalg.norm(points, axis=0)


def map_points() -> np.ndarray:
    """The sphere by latitude and longitude, [3, num]."""
    latitude, longitude = np.meshgrid(*(np.pi * (np.arange(n) + 0.5) / n for n in MAP), indexing="ij")
    points = [np.sin(latitude) * np.cos(2 * longitude), np.sin(latitude) * np.sin(2 * longitude), np.cos(latitude)]
    return np.stack(points).reshape(3, -1)


class SphereFit:
    """A network from points of the sphere, encoded or not, to one value; BATCH new points a step."""

    def __init__(self, backend: Backend, encoded: bool) -> None:
        self.backend, self.encoded, self.random = backend, encoded, np.random.default_rng(0)
        self.network = Network(backend, [DEGREE**2 if encoded else 3, HIDDEN, 1], BATCH, self.random)
        self.state = IterState(backend, lr=[RATE] * 6)
        self.loss = backend.upload(np.zeros(1, np.float32))
        self.count = backend.upload(np.array([BATCH], np.uint32))

    def values(self, points: np.ndarray) -> np.ndarray:
        """What the network says about BATCH points [3, BATCH]: [BATCH]."""
        on_device = self.backend.upload(points.astype(np.float32))
        if self.encoded:
            encode_directions(self.backend, on_device, self.count, DEGREE, self.network.inputs)
        else:
            self.network.inputs[...] = on_device
        self.network.forward(self.count)
        return self.backend.download(self.network.outputs)[0]

    def step(self, number: int) -> None:
        points = random_points(self.random, BATCH)
        self.values(points)
        targets = self.backend.upload(function(points).astype(np.float32)[None])
        regression_loss(self.network, targets, self.count, self.loss, L2)
        self.network.backward(self.count, to_inputs=False)
        self.state.write(**adam_bias(number))
        self.network.parameters.adam_flat(self.state, 0)


def run(backend: Backend, encoded: bool, steps: int) -> dict[str, Any]:
    """Mean squared error by step, and the sphere as the network has it."""
    fit, curve, begin = SphereFit(backend, encoded), [], time.perf_counter()
    unseen = random_points(np.random.default_rng(1), BATCH)
    for number in range(1, steps + 1):
        fit.step(number)
        if number % MEASURE_EVERY == 0 or number == steps:
            curve.append((number, float(((fit.values(unseen) - function(unseen)) ** 2).mean())))
    name = "spherical harmonics" if encoded else "no encoding"
    print(f"{name}: error {curve[-1][1]:.2e} after {steps} steps, {time.perf_counter() - begin:.0f} s", flush=True)
    return {"name": name, "curve": curve, "map": fit.values(map_points()).reshape(MAP)}


def draw(results: list[dict[str, Any]], out: Path) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    for result in results:
        axes.plot(*zip(*result["curve"], strict=True), label=f"{result['name']}: {result['curve'][-1][1]:.1e}")
    axes.set(xlabel="step", ylabel="mean squared error", yscale="log")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(out / "curves.png", dpi=110)
    shown = [("the function", function(map_points()).reshape(MAP))]
    shown += [(result["name"], result["map"]) for result in results]
    figure, places = pyplot.subplots(1, len(shown), figsize=(3.6 * len(shown), 2.1), layout="constrained")
    for place, (name, values) in zip(places, shown, strict=True):
        place.imshow(values, vmin=0, vmax=1)
        place.set_title(name, fontsize=8)
        place.axis("off")
    figure.savefig(out / "pictures.png", dpi=110)


@click.command(help=__doc__)
@click.option("--out", type=Path, required=True)
@click.option("--steps", default=1000)
@click.option("--device", default="auto")
def main(out: Path, steps: int, device: str) -> None:
    backend = open_backend(device)
    print(backend.describe())
    results = [run(backend, encoded, steps) for encoded in (True, False)]
    out.mkdir(parents=True, exist_ok=True)
    (out / "curves.json").write_text(json.dumps({result["name"]: result["curve"] for result in results}))
    draw(results, out)


if __name__ == "__main__":
    main()
