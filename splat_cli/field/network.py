"""Small fully connected network over planes: host side of cuda_src/field/dense.cu and dense_weights.cu."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from splat_cli.device import Backend, DeviceArray, ceil_div
from splat_cli.errors import ShapeError
from splat_cli.field.parameters import Parameters

NONE, RELU, SIGMOID = 0, 1, 2
MAX_WIDTH = 128
GRAIN = 8  # results per warp; widths are padded to multiples of it
BLOCK_ROWS, BLOCK_RESULTS = 256, 64  # per block of dense.cu
BLOCK_SUM_ROWS, BLOCK_WEIGHTS = 512, 64  # per block of dense_weights.cu (there BLOCK_ROWS and BLOCK_WEIGHTS)
WARPS = 8


def padded(width: int) -> int:
    """Number of planes of a layer with `width` values."""
    return ceil_div(width, GRAIN) * GRAIN


def check_widths(widths: Sequence[int]) -> None:
    """ShapeError for widths of inputs, hidden layers and outputs that the kernels do not support."""
    if any(width % GRAIN or not 16 <= width <= MAX_WIDTH for width in widths[1:-1]) or widths[0] > MAX_WIDTH:
        raise ShapeError(f"a network has up to 128 inputs and layers of 16 to 128, multiples of 8, got {widths}")


@dataclass(frozen=True)
class _Layer:
    """weights and d_weights: [num_inputs + 1, num_outputs], the last row the bias; x and y: planes."""

    num_inputs: int
    num_outputs: int
    activation: int
    weights: DeviceArray
    d_weights: DeviceArray
    x: DeviceArray
    d_x: DeviceArray
    y: DeviceArray
    d_y: DeviceArray


class Network:
    """Multilayer perceptron: hidden layers with ReLU; outputs with a sigmoid or no activation.

    widths: widths of inputs, hidden layers (16 to 128, a multiple of 8) and outputs. rows: maximum number of
    samples. inputs and d_inputs: planes float32 [inputs, rows]; outputs and d_outputs: planes [padded(outputs), rows],
    whose padding must stay zero in d_outputs.
    """

    def __init__(
        self,
        backend: Backend,
        widths: Sequence[int],
        rows: int,
        rng: np.random.Generator,
        sigmoid: bool = False,
        zero_outputs: bool = False,
    ) -> None:
        check_widths(widths)
        self.backend, self.widths, self.rows = backend, tuple(widths), rows
        self.last = SIGMOID if sigmoid else NONE
        self.parameters = Parameters(backend, _initial_weights(widths, rng, zero_outputs))
        self.resize(rows)

    def resize(self, rows: int) -> None:
        """Allocate planes for `rows` samples; their contents are lost."""
        self.rows = rows
        sizes = [self.widths[0], *map(padded, self.widths[1:])]
        zeros = self.backend.xp.zeros
        planes = [zeros((size, rows), "float32") for size in sizes]
        d_planes = [zeros((size, rows), "float32") for size in sizes]
        self.layers, offset = [], 0
        for k, (num_inputs, num_outputs) in enumerate(itertools.pairwise(sizes)):
            end = offset + (num_inputs + 1) * num_outputs
            activation = self.last if k == len(sizes) - 2 else RELU
            weights, d_weights = self.parameters.values[offset:end], self.parameters.gradients[offset:end]
            buffers = weights, d_weights, planes[k], d_planes[k], planes[k + 1], d_planes[k + 1]
            self.layers.append(_Layer(num_inputs, num_outputs, activation, *buffers))
            offset = end
        self.inputs, self.d_inputs, self.outputs, self.d_outputs = planes[0], d_planes[0], planes[-1], d_planes[-1]

    def forward(self, num_rows: DeviceArray) -> None:
        """Compute `outputs` from `inputs`. num_rows: uint32 [1] on the device, number of samples in use."""
        for layer in self.layers:
            grid = ceil_div(self.rows, BLOCK_ROWS), ceil_div(layer.num_outputs, BLOCK_RESULTS)
            inputs = layer.x, self.rows, num_rows, layer.weights, layer.num_inputs, layer.num_outputs
            kernel = self.backend.kernel("field/dense", "dense_forward", ACTIVATION=layer.activation)
            kernel(grid, (32, WARPS), *inputs, layer.y)

    def backward(self, num_rows: DeviceArray, to_inputs: bool = True) -> None:
        """Compute `d_inputs` (if to_inputs) from `d_outputs`, and add to the gradients of the weights."""
        if self.last == SIGMOID:
            self._through_sigmoid(num_rows)
        kernel, block = self.backend.kernel, (32, WARPS)
        for k, layer in reversed(list(enumerate(self.layers))):
            sizes = layer.num_inputs, layer.num_outputs
            blocks = ceil_div(layer.num_inputs, BLOCK_WEIGHTS) * ceil_div(layer.num_outputs, BLOCK_WEIGHTS)
            inputs = layer.x, layer.d_y, self.rows, num_rows, *sizes
            grid = ceil_div(self.rows, BLOCK_SUM_ROWS), blocks
            kernel("field/dense_weights", "dense_backward_weights")(grid, block, *inputs, layer.d_weights)
            if k or to_inputs:
                grid = ceil_div(self.rows, BLOCK_ROWS), ceil_div(layer.num_inputs, BLOCK_RESULTS)
                weights, x = (layer.weights, *sizes), layer.x if k else None
                kernel("field/dense", "dense_backward_inputs")(
                    grid, block, layer.d_y, self.rows, num_rows, *weights, x, layer.d_x
                )

    def _through_sigmoid(self, num_rows: DeviceArray) -> None:
        grid = ceil_div(self.rows, 32 * WARPS), self.widths[-1]
        arrays = self.outputs, self.rows, num_rows, self.d_outputs
        self.backend.kernel("field/regression", "sigmoid_backward")(grid, (32, WARPS), *arrays)


def num_weights(widths: Sequence[int]) -> int:
    """Number of weights of a network of these widths, with padding."""
    sizes = [widths[0], *map(padded, widths[1:])]
    return sum((num_inputs + 1) * num_outputs for num_inputs, num_outputs in itertools.pairwise(sizes))


def _initial_weights(widths: Sequence[int], rng: np.random.Generator, zero_outputs: bool) -> np.ndarray:
    """Weights of all layers, concatenated: uniform, scaled for ReLU (He et al. 2015); biases and padding zero."""
    parts = []
    sizes = [widths[0], *map(padded, widths[1:])]
    for k in range(1, len(widths)):
        weights = np.zeros((sizes[k - 1] + 1, sizes[k]), np.float32)
        bound = 0.0 if zero_outputs and k == len(widths) - 1 else np.sqrt(6 / widths[k - 1])
        weights[: widths[k - 1], : widths[k]] = rng.uniform(-bound, bound, (widths[k - 1], widths[k]))
        parts.append(weights.ravel())
    return np.concatenate(parts)
