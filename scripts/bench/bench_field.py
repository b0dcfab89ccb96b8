"""Time the parts of a colour field: the hash encoding against its bytes and atomics, the optimiser, the network.

    python scripts/bench/bench_field.py [--samples 1048576] [--device cuda]

The floor of the encoding is scripts/bench/kernels/hash_floor.cu: only the same loads, stores and atomics.
Points are random ("scattered") or along a space-filling curve, like sorted splats ("sorted").
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
import numpy as np
from timing import median_ms

from splat_cli.device import Backend, DeviceArray, ceil_div, open_backend
from splat_cli.field.hash_grid import GridShape, HashGrid
from splat_cli.field.network import Network
from splat_cli.field.parameters import Parameters, adam_bias
from splat_cli.render.iter_state import IterState

SHAPE = GridShape(3, levels=16, table_size=2**19, features=2, base_resolution=16, growth=1.5)
WIDTHS = (48, 64, 64, 6)
REPEATS = 15
THREADS = 256


def in_curve_order(points: np.ndarray) -> np.ndarray:
    """Points [3, N] in Morton order of 2^10 cells per axis."""
    cells = (points * 1023).astype(np.uint64)
    code = np.zeros(points.shape[1], np.uint64)
    for bit in range(10):
        for axis in range(3):
            code |= (cells[axis] >> np.uint64(bit) & np.uint64(1)) << np.uint64(3 * bit + axis)
    return np.ascontiguousarray(points[:, np.argsort(code)])


def show(name: str, forward: float, backward: float) -> None:
    print(f"  {name:24} {forward:8.3f} {backward:8.3f} {forward + backward:8.3f}", flush=True)


def bench_floor(backend: Backend, num: int) -> None:
    rng = np.random.default_rng(0)
    blocks, levels = (ceil_div(num, THREADS), SHAPE.levels), backend.upload(SHAPE.level_table().view(np.uint32))
    points = backend.upload(rng.random((3, num), dtype=np.float32))
    features = backend.upload(np.ones((SHAPE.width, num), np.float32))
    tables = backend.xp.zeros(SHAPE.num_entries * SHAPE.features, "float32")
    kernel = backend.kernel
    forward = partial(kernel("hash_floor", "floor_forward"), blocks, (THREADS,), points, num, levels, tables, features)
    backward = partial(
        kernel("hash_floor", "floor_backward"), blocks, (THREADS,), points, num, levels, features, tables
    )
    show("floor", median_ms(backend, forward, REPEATS), median_ms(backend, backward, REPEATS))


def bench_encoding(backend: Backend, num: int) -> None:
    rng = np.random.default_rng(0)
    points = rng.random((3, num), dtype=np.float32)
    count = backend.upload(np.array([num], np.uint32))
    features = backend.upload(rng.normal(size=(SHAPE.width, num)).astype(np.float32))
    for half in (False, True):
        grid = HashGrid(backend, SHAPE, rng, half)
        for name, order in (("scattered", np.ascontiguousarray), ("sorted", in_curve_order)):
            positions = backend.upload(order(points))
            forward = median_ms(backend, partial(grid.encode, positions, count, features), REPEATS)
            backward = median_ms(backend, partial(grid.backward, positions, count, features), REPEATS)
            show(name + ", half tables" * half, forward, backward)


def bench_optimiser(backend: Backend) -> None:
    rng = np.random.default_rng(0)
    num = SHAPE.num_entries * SHAPE.features
    parameters = Parameters(backend, rng.normal(size=num).astype(np.float32))
    gradients = np.zeros((num // 2, 2), np.float32)
    gradients[rng.choice(num // 2, num // 200, replace=False)] = 1e-3
    touched = backend.upload(gradients.ravel())
    state = IterState(backend, lr=[1e-3] * 6, **adam_bias(10))
    refill = median_ms(backend, lambda: fill(parameters, touched), REPEATS)
    print(f"Adam on {num} values, 1 % touched (ms)")
    times = {}
    for name, sparse in (("all", False), ("touched", True)):

        def step(sparse: bool = sparse) -> None:
            fill(parameters, touched)
            parameters.adam_flat(state, 0, sparse=sparse)

        times[name] = median_ms(backend, step, REPEATS) - refill
        print(f"  {name:24} {times[name]:8.3f}")
    print(f"  {'ratio':24} {times['all'] / times['touched']:8.1f}", flush=True)


def fill(parameters: Parameters, gradients: DeviceArray) -> None:
    """Restore the gradients, which a step resets."""
    parameters.gradients[: len(gradients)] = gradients


def bench_network(backend: Backend, num: int) -> None:
    rng = np.random.default_rng(0)
    network = Network(backend, WIDTHS, num, rng)
    count = backend.upload(np.array([num], np.uint32))
    network.inputs[...] = 0.5
    network.d_outputs[: WIDTHS[-1]] = 1e-3
    print(f"network {WIDTHS}, {num} rows: forward, backward, both (ms)")
    forward, backward = partial(network.forward, count), partial(network.backward, count)
    show("own products", median_ms(backend, forward, REPEATS), median_ms(backend, backward, REPEATS))
    weights = [layer.weights.reshape(-1, layer.num_outputs)[:-1] for layer in network.layers]

    def multiply() -> None:
        for w, layer in zip(weights, network.layers, strict=True):
            backend.xp.matmul(w.T, layer.x, out=layer.y)

    def multiply_back() -> None:
        for w, layer in zip(weights, network.layers, strict=True):
            backend.xp.matmul(w, layer.d_y, out=layer.d_x)
            layer.x @ layer.d_y.T

    show("matmul alone", median_ms(backend, multiply, REPEATS), median_ms(backend, multiply_back, REPEATS))


@click.command(help=__doc__)
@click.option("--samples", default=2**20)
@click.option("--device", default="auto")
def main(samples: int, device: str) -> None:
    backend = open_backend(device, sources=Path(__file__).parent / "kernels")
    print(backend.describe())
    shape = f"L={SHAPE.levels}, F={SHAPE.features}, T={SHAPE.table_size}"
    print(f"encoding, {samples} points, {shape}: forward, backward, both (ms)")
    bench_floor(backend, samples)
    bench_encoding(backend, samples)
    bench_optimiser(backend)
    bench_network(backend, samples // 4)


if __name__ == "__main__":
    main()
