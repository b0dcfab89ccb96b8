"""Code of fit_image.py and fit_sphere.py: the network with its encoding and optimiser, shares of time, curves."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from regression import regression_loss

from splat_cli.device import Backend, DeviceArray, Timer
from splat_cli.field.network import Network
from splat_cli.field.parameters import adam_bias
from splat_cli.render.iter_state import IterState

Part = Callable[[str], AbstractContextManager[Any]]  # its time counts as the part of this name


class Encoding(Protocol):
    """Maps points, planes [dimensions, rows], to the inputs of a network, planes [width, rows]."""

    @property
    def width(self) -> int: ...

    def encode(self, points: DeviceArray, count: DeviceArray, inputs: DeviceArray) -> None: ...

    def backward(self, points: DeviceArray, count: DeviceArray, d_inputs: DeviceArray) -> None:
        """Add to the gradients of the encoding's own parameters; called only if it is `trained`."""

    @property
    def trained(self) -> Any:
        """Parameters of the encoding, or None."""


@dataclass
class Coordinates:
    """Points times `factor` plus `offset`: no encoding."""

    width: int
    factor: float = 1.0
    offset: float = 0.0
    trained: None = None

    def encode(self, points: DeviceArray, count: DeviceArray, inputs: DeviceArray) -> None:
        inputs[...] = points * np.float32(self.factor) + np.float32(self.offset)

    def backward(self, points: DeviceArray, count: DeviceArray, d_inputs: DeviceArray) -> None: ...


@dataclass
class Frequencies:
    """sin and cos of 2^k pi times each coordinate, k < num (Mildenhall et al. 2020, sec. 5.1)."""

    xp: Any
    dimensions: int
    num: int
    trained: None = None

    @property
    def width(self) -> int:
        return 2 * self.num * self.dimensions

    def encode(self, points: DeviceArray, count: DeviceArray, inputs: DeviceArray) -> None:
        factors = self.xp.asarray(np.pi * 2.0 ** np.arange(self.num), dtype="float32")
        angles = (factors[:, None, None] * points).reshape(self.width // 2, -1)
        inputs[: self.width // 2], inputs[self.width // 2 :] = self.xp.sin(angles), self.xp.cos(angles)

    def backward(self, points: DeviceArray, count: DeviceArray, d_inputs: DeviceArray) -> None: ...


@dataclass(frozen=True)
class Setup:
    """Settings of a fit. loss: kind of regression_loss, with 0.05 as Huber's limit."""

    hidden: list[int]
    rate: float
    sigmoid: bool
    loss: int
    adam: bool = True


class Fit:
    """A network after an encoding, for `rows` points at a time."""

    def __init__(self, backend: Backend, encoding: Encoding, setup: Setup, channels: int, rows: int) -> None:
        self.backend, self.encoding, self.setup = backend, encoding, setup
        widths = [encoding.width, *setup.hidden, channels]
        self.network = Network(backend, widths, rows, np.random.default_rng(0), sigmoid=setup.sigmoid)
        self.state = IterState(backend, lr=[setup.rate] * 6)
        self.loss = backend.upload(np.zeros(1, np.float32))
        self.count = backend.upload(np.array([rows], np.uint32))

    def values(self, points: np.ndarray) -> np.ndarray:
        """Outputs of the network at points [dimensions, any number]: float32 [channels, number]."""
        num, rows = points.shape[1], self.network.rows
        parts = []
        for begin in range(0, num, rows):
            batch = np.resize(points[:, begin : begin + rows].T, (rows, len(points))).T
            self.forward(self.backend.upload(np.ascontiguousarray(batch, np.float32)))
            parts.append(self.backend.download(self.network.outputs)[: self.network.widths[-1]])
        return np.concatenate(parts, axis=1)[:, :num]

    def forward(self, points: DeviceArray, part: Part = lambda name: nullcontext()) -> None:
        with part("encoding"):
            self.encoding.encode(points, self.count, self.network.inputs)
        with part("network"):
            self.network.forward(self.count)

    def step(
        self,
        number: int,
        points: DeviceArray,
        targets: DeviceArray,
        part: Part = lambda name: nullcontext(),
        sparse: bool = True,
    ) -> None:
        """One update, numbered from 1. sparse: the optimiser skips table entries that no point touched."""
        adam, trained = self.setup.adam, self.encoding.trained
        self.forward(points, part)
        with part("network, backward"):
            regression_loss(self.network, targets, self.count, self.loss, self.setup.loss, 0.05)
            self.network.backward(self.count, to_inputs=trained is not None)
        with part("encoding, backward"):
            if trained:
                self.encoding.backward(points, self.count, self.network.d_inputs)
        self.state.write(**adam_bias(number))
        with part("optimiser"):
            if trained:
                trained.adam_flat(self.state, 0, sparse=sparse, adam=adam)
            self.network.parameters.adam_flat(self.state, 0, adam=adam)

    def parts(
        self, number: int, points: DeviceArray, targets: DeviceArray, sparse: bool, repeats: int = 5
    ) -> dict[str, float]:
        """Median milliseconds of a step's parts; continues training."""
        times: dict[str, list[float]] = {}
        timers: dict[str, Timer] = {}

        def part(name: str) -> Timer:
            return timers.setdefault(name, self.backend.timer())

        for k in range(repeats + 1):
            timers.clear()
            self.step(number + k, points, targets, part, sparse)
            for name, timer in timers.items():
                times.setdefault(name, []).append(timer.ms)
        return {name: float(np.median(values[1:])) for name, values in times.items()}


def shares(parts: dict[str, float]) -> dict[str, float]:
    """The optimiser's share of a training step, and the encoding's share of inference."""
    inference = parts["encoding"] + parts["network"]
    return {
        "optimiser of training": parts["optimiser"] / sum(parts.values()),
        "encoding of inference": parts["encoding"] / inference,
    }


@dataclass
class Result:
    """A fit's name, its errors by step, its outputs at some of the steps, and its shares of time."""

    name: str
    curve: list[tuple[int, float]] = field(default_factory=list)
    shown: dict[int, np.ndarray] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    begin: float = field(default_factory=time.perf_counter)

    def end(self, steps: int, unit: str) -> None:
        last, seconds = self.curve[-1][1], time.perf_counter() - self.begin
        print(f"{self.name}: {last:.4g} {unit} after {steps} steps, {seconds:.0f} s", flush=True)


def write_results(results: Sequence[Result], out: Path) -> None:
    """curves.json: by name, the curve and further measurements."""
    content = {result.name: {"curve": result.curve, **result.extra} for result in results}
    (out / "curves.json").write_text(json.dumps(content, indent=1))


def draw_curves(results: Sequence[Result], out: Path, label: str, form: str, scale: str) -> None:
    """curves.png: one line per fit."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for result in results:
        axes.plot(*zip(*result.curve, strict=True), label=f"{result.name}: {result.curve[-1][1]:{form}}")
    axes.set(xlabel="step", ylabel=label, yscale=scale)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    figure.savefig(out / "curves.png", dpi=110)
    pyplot.close(figure)
