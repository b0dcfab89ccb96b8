"""An affine change of colour, y = x + D (x, 1), and its gradients."""

import numpy as np

Array = np.ndarray


def forward(image: Array, difference: Array) -> Array:
    """Changed image [3, H, W], with D [3, 4]."""
    return image + np.einsum("ck,khw->chw", difference[:, :3], image) + difference[:, 3, None, None]


def backward(image: Array, difference: Array, d_exposed: Array) -> tuple[Array, Array]:
    """Gradients with respect to the image [3, H, W] and to D [3, 4]."""
    d_image = d_exposed + np.einsum("ck,chw->khw", difference[:, :3], d_exposed)
    by_factors = np.einsum("chw,khw->ck", d_exposed, image)
    return d_image, np.column_stack([by_factors, d_exposed.sum(axis=(1, 2))])
