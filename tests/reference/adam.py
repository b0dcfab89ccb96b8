"""Adam (Kingma and Ba 2015, algorithm 1) with one learning rate per row, and along the axes of splats."""

import numpy as np

from tests.reference.project import rotation_matrices

Array = np.ndarray
FIRST_VIEW_DEPENDENT_ROW = 14  # among a splat's parameters


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
    bias_betas: tuple[float, float] | None = None,
    stored: Array | None = None,
) -> tuple[Array, Array, Array]:
    """New parameters and moments, all [rows, n], after step `step_number` (the first is 1).

    Rows without moments, which are the view-dependent colours, move along their gradients, with the second moments of
    their channel's constant colour, or with `stored` if given, [3, n]: these as they were rounded. bias_betas: decay
    rates per step for the bias corrections, by default those of the moments.

    learning_rates: [rows], or [rows, n].
    """
    rates = learning_rates if learning_rates.ndim == 2 else learning_rates[:, None]
    few = len(moments2)
    missing = len(params) - few
    moments1 = beta1 * moments1 + (1 - beta1) * grads[:few]
    moments2 = beta2 * moments2 + (1 - beta2) * grads[:few] ** 2
    bias1, bias2 = bias_betas or (beta1, beta2)
    unbiased1 = np.concatenate([moments1 / (1 - bias1**step_number), grads[few:]])
    of_colors = moments2[-3:] if stored is None else stored
    unbiased2 = np.concatenate([moments2, *[of_colors] * (missing // 3)]) / (1 - bias2**step_number)
    params = params - rates * unbiased1 / (np.sqrt(unbiased2) + epsilon)
    return params, moments1, moments2


def step_along_axes(
    params: Array,
    grads: Array,
    moments1: Array,
    moments2: Array,
    learning_rates: Array,
    step_number: int,
    reference_size: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    stored: Array | None = None,
) -> tuple[Array, Array, Array]:
    """`step` for the rows of splats (means, log scales, quaternions, ...), with means updated along their axes.

    A splat of the reference size moves at the rate of positions. Other splats move at this rate times the root of their
    relative size (mean of the axes), at most five times more or less. The moments of means are along the axes, too.
    """
    lengths = np.maximum(np.linalg.norm(params[6:10], axis=0), 1e-12)
    axes, scales = rotation_matrices((params[6:10] / lengths).T), np.exp(params[3:6])  # columns of [n, 3, 3] are axes
    rates = np.repeat(learning_rates[:, None], params.shape[1], axis=1)
    rates[:3] *= np.clip(np.sqrt(scales.mean(axis=0) / reference_size), 0.2, 5.0)
    own = np.concatenate([np.einsum("nji,jn->in", axes, grads[:3]), grads[3:]])
    start = np.concatenate([np.zeros_like(params[:3]), params[3:]])
    stepped, moments1, moments2 = step(start, own, moments1, moments2, rates, step_number, beta1, beta2, stored=stored)
    stepped[:3] = params[:3] + np.einsum("nij,jn->in", axes, stepped[:3])
    return stepped, moments1, moments2


def is_updated(seen: Array, num_rows: int, dense: bool = True) -> Array:
    """Mask of updated parameters, bool [num_rows, n]. seen: whether a view shows the splat, bool [n].

    Parameters of seen splats are updated. If dense, other splats are updated too, except view-dependent colours.
    """
    constant = np.arange(num_rows)[:, None] < FIRST_VIEW_DEPENDENT_ROW
    return np.asarray(seen | (dense & constant))
