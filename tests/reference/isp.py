"""ISP of a photograph and its camera (cuda_src/optim/isp.cuh), and its gradients.

A photograph's 13 values: exposure, D [3, 4]. A camera's 17: by channel a1, a2, a3, b1, b2; then the centre.
"""

import numpy as np

Array = np.ndarray

OVEREXPOSED_SLOPE = 0.1


def squared_radius(height: int, width: int, center: Array) -> tuple[Array, Array, Array]:
    """x, y and x^2 + y^2, each [H, W], relative to the optical centre, in half diagonals."""
    radius = np.sqrt(width**2 + height**2) / 2
    x, y = np.meshgrid(
        (np.arange(width) + 0.5 - width / 2) / radius - center[0],
        (np.arange(height) + 0.5 - height / 2) / radius - center[1],
    )
    return x, y, x**2 + y**2


def matrix(photo: Array) -> Array:
    """[3, 4]: 2^exposure (I + D)."""
    return 2 ** photo[0] * (np.eye(3, 4) + photo[1:].reshape(3, 4))


def curve(u: Array, b: Array) -> Array:
    """The response of b [2]: a cubic from black to white, linear beyond them."""
    cubic = u + b[0] * u * (1 - u) + b[1] * u * (1 - u) * (1 - 2 * u)
    dark = u * (1 + b[0] + b[1])
    bright = 1 + OVEREXPOSED_SLOPE * (u - 1)
    return np.where(u < 0, dark, np.where(u > 1, bright, cubic))


def d_curve(u: Array, b: Array) -> tuple[Array, Array, Array]:
    """Derivatives of the response with respect to u, b1 and b2."""
    slope = 1 + b[0] * (1 - 2 * u) + b[1] * (1 - 6 * u + 6 * u**2)
    slope = np.where(u < 0, 1 + b[0] + b[1], np.where(u > 1, OVEREXPOSED_SLOPE, slope))
    by_b1 = np.where(u < 0, u, np.where(u > 1, 0, u * (1 - u)))
    by_b2 = np.where(u < 0, u, np.where(u > 1, 0, u * (1 - u) * (1 - 2 * u)))
    return slope, by_b1, by_b2


def forward(image: Array, photo: Array, camera: Array) -> Array:
    """Processed image [3, H, W]."""
    m, channels = matrix(photo), camera[:15].reshape(3, 5)
    _, _, r2 = squared_radius(*image.shape[1:], camera[15:])
    light = np.einsum("ck,khw->chw", m[:, :3], image) + m[:, 3, None, None]
    falloffs = [1 + a[0] * r2 + a[1] * r2**2 + a[2] * r2**3 for a in channels]
    return np.stack([curve(light[c] * falloffs[c], channels[c, 3:]) for c in range(3)])


def backward(image: Array, photo: Array, camera: Array, d_changed: Array) -> tuple[Array, Array, Array]:
    """Gradients with respect to the image [3, H, W], the photograph's 13 values and the camera's 17."""
    m, channels = matrix(photo), camera[:15].reshape(3, 5)
    x, y, r2 = squared_radius(*image.shape[1:], camera[15:])
    light = np.einsum("ck,khw->chw", m[:, :3], image) + m[:, 3, None, None]
    powers = np.stack([r2, r2**2, r2**3])
    d_light, d_channels, d_r2 = np.zeros_like(light), np.zeros((3, 5)), np.zeros_like(r2)
    for c, a in enumerate(channels):
        falloff = 1 + np.tensordot(a[:3], powers, axes=1)
        slope, by_b1, by_b2 = d_curve(light[c] * falloff, a[3:])
        d_u = d_changed[c] * slope
        d_light[c] = d_u * falloff
        d_channels[c, :3] = (d_u * light[c] * powers).sum(axis=(1, 2))
        d_channels[c, 3:] = (d_changed[c] * by_b1).sum(), (d_changed[c] * by_b2).sum()
        d_r2 += d_u * light[c] * (a[0] + 2 * a[1] * r2 + 3 * a[2] * r2**2)
    d_m = np.column_stack([np.einsum("chw,khw->ck", d_light, image), d_light.sum(axis=(1, 2))])
    d_photo = np.concatenate([[np.log(2) * (d_m * m).sum()], (2 ** photo[0] * d_m).ravel()])
    d_camera = np.concatenate([d_channels.ravel(), [-2 * (x * d_r2).sum(), -2 * (y * d_r2).sum()]])
    return np.einsum("ck,chw->khw", m[:, :3], d_light), d_photo, d_camera
