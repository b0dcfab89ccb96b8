"""Density control, float64: raw parameters are columns [rows, K] as in the planes of the device."""

from math import comb

import numpy as np

MAX_COPIES = 51


def sigmoid(logits):
    return 1 / (1 + np.exp(-logits))


def logit(opacities):
    opacities = np.clip(opacities, 1e-6, 1 - 1e-6)
    return np.log(opacities / (1 - opacities))


def rotations(quats):
    """Rotation matrices [K, 3, 3] of raw quaternions [4, K] (wxyz)."""
    w, x, y, z = quats / np.linalg.norm(quats, axis=0)
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]).transpose(2, 0, 1)  # fmt: skip


def covariances(columns):
    """[K, 3, 3], world units."""
    scaled = rotations(columns[6:10]) * np.exp(columns[3:6]).T[:, None, :]
    return scaled @ scaled.transpose(0, 2, 1)


def relocated(columns, num_splats, min_opacity):
    """Each column, changed to one of num_splats [K] equal copies: 3DGS-MCMC (Kheradmand et al. 2024), eq. 9."""
    result = columns.astype(np.float64)
    for k, n in enumerate(np.minimum(num_splats, MAX_COPIES)):
        opacity = sigmoid(result[10, k])
        shared = 1 - (1 - opacity) ** (1 / n)
        total = sum(
            comb(i - 1, j) * (-1) ** j / np.sqrt(j + 1) * shared ** (j + 1) for i in range(1, n + 1) for j in range(i)
        )
        result[3:6, k] += np.log(opacity / total)
        result[10, k] = logit(max(shared, min_opacity))
    return result


def halves(columns):
    """Both halves of each splat along its longest axis (columns, columns)."""
    one = columns.astype(np.float64)
    k, longest = np.arange(one.shape[1]), np.argmax(one[3:6], axis=0)
    offset = 0.5 * np.exp(one[3 + longest, k]) * rotations(one[6:10])[k, :, longest].T
    one[3:6] += np.log(0.85)
    one[3 + longest, k] += np.log(0.5 / 0.85)
    one[10] = logit(0.6 * sigmoid(one[10]))
    other = one.copy()
    one[:3] += offset
    other[:3] -= offset
    return one, other


def children(columns, normals):
    """The child of each splat at the sample given by standard normal numbers [3, K] (Kerbl et al. 2023, sec. 5.2)."""
    child = columns.astype(np.float64)
    local = normals * np.exp(child[3:6])
    child[:3] += np.einsum("kij,jk->ik", rotations(child[6:10]), local)
    child[3:6] -= np.log(1.6)
    return child
