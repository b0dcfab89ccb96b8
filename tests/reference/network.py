"""A fully connected network with ReLU and its losses, in float64."""

import numpy as np

Array = np.ndarray

RELATIVE_EPSILON = 0.01


def forward(layers: list[Array], inputs: Array, sigmoid: bool) -> list[Array]:
    """Values of every layer, [N, width] each, inputs first. layers: [inputs + 1, outputs], the last row the bias."""
    values = [inputs]
    for k, weights in enumerate(layers):
        y = values[-1] @ weights[:-1] + weights[-1]
        if k < len(layers) - 1:
            y = np.maximum(y, 0)
        elif sigmoid:
            y = 1 / (1 + np.exp(-y))
        values.append(y)
    return values


def backward(layers: list[Array], values: list[Array], d_outputs: Array, sigmoid: bool) -> tuple[list[Array], Array]:
    """Gradients of the layers and of the inputs."""
    d = d_outputs * values[-1] * (1 - values[-1]) if sigmoid else d_outputs
    gradients = []
    for k in reversed(range(len(layers))):
        gradients.insert(0, np.concatenate([values[k].T @ d, d.sum(axis=0, keepdims=True)]))
        d = d @ layers[k][:-1].T
        if k:
            d = d * (values[k] > 0)
    return gradients, d


def loss(kind: str, outputs: Array, targets: Array, delta: float = 0.05, held: Array | None = None) -> float:
    """Mean over all elements. "relative_l2" divides by the square of `held`, by default the outputs."""
    error = outputs - targets
    if kind == "huber":
        size = np.abs(error)
        return float(np.where(size <= delta, error**2 / 2, delta * (size - delta / 2)).mean())
    scale = 1.0 if kind == "l2" else 1 / ((outputs if held is None else held) ** 2 + RELATIVE_EPSILON)
    return float((error**2 * scale).mean())


def loss_backward(kind: str, outputs: Array, targets: Array, delta: float = 0.05) -> Array:
    """The gradient of the outputs; the denominator of relative L2 counts as a constant."""
    error = outputs - targets
    if kind == "huber":
        return np.clip(error, -delta, delta) / error.size
    scale = 1.0 if kind == "l2" else 1 / (outputs**2 + RELATIVE_EPSILON)
    return 2 * error * scale / error.size
