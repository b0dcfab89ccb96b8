"""The network and its losses against their reference, and the reference against central differences."""

import numpy as np
import pytest

from scripts.figures.regression import HUBER, L2, RELATIVE_L2, regression_loss
from splat_cli.device import Backend
from splat_cli.errors import ShapeError
from splat_cli.field.network import Network, padded
from tests.compare import BACKWARD, FORWARD, Comparison
from tests.reference import network as reference

ROWS, NUM = 3000, 2777  # more than one block of any kernel, and not a multiple of a block
WIDTHS = [(5, 64, 64, 3), (48, 128, 128, 9), (128, 16, 1), (3, 96, 40, 8)]
KINDS = {"l2": L2, "relative_l2": RELATIVE_L2, "huber": HUBER}


def layers_of(network: Network) -> list[np.ndarray]:
    """Weights [inputs + 1, outputs] without padding, float64."""
    layers = []
    for k, layer in enumerate(network.layers):
        weights = network.backend.download(layer.weights).reshape(layer.num_inputs + 1, layer.num_outputs)
        rows = [*range(network.widths[k]), layer.num_inputs]
        layers.append(weights[rows][:, : network.widths[k + 1]].astype(np.float64))
    return layers


def gradients_of(network: Network) -> list[np.ndarray]:
    gradients = []
    for k, layer in enumerate(network.layers):
        d_weights = network.backend.download(layer.d_weights).reshape(layer.num_inputs + 1, layer.num_outputs)
        gradients.append(d_weights[[*range(network.widths[k]), layer.num_inputs]][:, : network.widths[k + 1]])
    return gradients


@pytest.mark.parametrize("sigmoid", [False, True], ids=["linear", "sigmoid"])
@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_network(backend: Backend, comparison: Comparison, widths: tuple[int, ...], sigmoid: bool) -> None:
    rng = np.random.default_rng(0)
    network = Network(backend, widths, ROWS, rng, sigmoid)
    network.parameters.values += backend.upload(rng.normal(0, 0.1, len(network.parameters)).astype(np.float32))
    inputs, d_outputs = rng.normal(size=(NUM, widths[0])), rng.normal(size=(NUM, widths[-1]))
    network.inputs[...] = np.nan  # rows past those in use may hold anything
    network.inputs[:, :NUM] = backend.upload(inputs.T.astype(np.float32))
    network.d_outputs[: widths[-1], :NUM] = backend.upload(d_outputs.T.astype(np.float32))
    num_rows = backend.upload(np.array([NUM], np.uint32))
    network.forward(num_rows)
    network.backward(num_rows)

    layers = layers_of(network)
    values = reference.forward(layers, inputs, sigmoid)
    actual = backend.download(network.outputs)[: widths[-1], :NUM].T
    comparison.check("dense_forward", "outputs", actual, values[-1], FORWARD)
    d_layers, d_inputs = reference.backward(layers, values, d_outputs, sigmoid)
    actual = backend.download(network.d_inputs)[: widths[0], :NUM].T
    comparison.check("dense_backward_inputs", "d inputs", actual, d_inputs, BACKWARD)
    for found, expected in zip(gradients_of(network), d_layers, strict=True):
        comparison.check("dense_backward_weights", "d weights", found, expected, BACKWARD)


@pytest.mark.parametrize("kind", KINDS)
def test_losses(backend: Backend, comparison: Comparison, kind: str) -> None:
    rng = np.random.default_rng(0)
    network = Network(backend, (2, 16, 3), ROWS, rng)
    outputs, targets = rng.uniform(-0.2, 1.2, (2, 3, ROWS)).astype(np.float32)
    network.outputs[:3] = backend.upload(outputs)
    loss = backend.upload(np.zeros(1, np.float32))
    num_rows = backend.upload(np.array([NUM], np.uint32))
    regression_loss(network, backend.upload(targets), num_rows, loss, KINDS[kind], 0.3)
    used = outputs[:, :NUM].astype(np.float64), targets[:, :NUM].astype(np.float64)
    expected = np.array([reference.loss(kind, *used, 0.3)])
    comparison.check("regression_loss", kind, backend.download(loss), expected, FORWARD)
    actual = backend.download(network.d_outputs)[:, :NUM]
    comparison.check(
        "regression_loss", f"d outputs, {kind}", actual[:3], reference.loss_backward(kind, *used, 0.3), FORWARD
    )
    assert not actual[3:].any()


@pytest.mark.parametrize("sigmoid", [False, True])
def test_reference_against_central_differences(sigmoid: bool) -> None:
    rng = np.random.default_rng(0)
    layers = [rng.normal(size=(4, 5)), rng.normal(size=(6, 2))]
    inputs, targets, h = rng.normal(size=(7, 3)), rng.normal(size=(7, 2)), 1e-6
    for kind in KINDS:
        values = reference.forward(layers, inputs, sigmoid)
        d_outputs = reference.loss_backward(kind, values[-1], targets)
        d_layers, d_inputs = reference.backward(layers, values, d_outputs, sigmoid)
        for array, gradient in [(inputs, d_inputs), *zip(layers, d_layers, strict=True)]:
            for index in [(0, 0), (1, 1), (3, 2), tuple(np.array(array.shape) - 1)]:
                if np.any(np.array(index) >= array.shape):
                    continue
                results = []
                for sign in (1, -1):
                    array[index] += sign * h
                    moved = reference.forward(layers, inputs, sigmoid)[-1]
                    results.append(reference.loss(kind, moved, targets, held=values[-1]))
                    array[index] -= sign * h
                slope = (results[0] - results[1]) / (2 * h)
                assert slope == pytest.approx(gradient[index], rel=1e-5, abs=1e-8)


def test_planes_are_padded_and_widths_checked(backend: Backend) -> None:
    rng = np.random.default_rng(0)
    assert [padded(width) for width in (1, 8, 9)] == [8, 8, 16]
    for widths in ((3, 8, 1), (3, 136, 1), (3, 20, 1), (129, 16, 1)):
        with pytest.raises(ShapeError, match="16 to 128"):
            Network(backend, widths, 10, rng)
