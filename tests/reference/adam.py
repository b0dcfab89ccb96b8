"""Adam (Kingma and Ba 2015, algorithm 1) with one learning rate a row."""

import numpy as np

Array = np.ndarray


def step(
    params: Array,
    grads: Array,
    moments1: Array,
    moments2: Array,
    learning_rates: Array,
    step_number: int,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-15,
) -> tuple[Array, Array, Array]:
    """New parameters and moments, all [rows, n], after step `step_number` (the first is 1); learning_rates [rows]."""
    moments1 = beta1 * moments1 + (1 - beta1) * grads
    moments2 = beta2 * moments2 + (1 - beta2) * grads**2
    unbiased1 = moments1 / (1 - beta1**step_number)
    unbiased2 = moments2 / (1 - beta2**step_number)
    params = params - learning_rates[:, None] * unbiased1 / (np.sqrt(unbiased2) + epsilon)
    return params, moments1, moments2
