"""Inputs of every reference: a camera and splats, float64, named and shaped as in docs/architecture.md."""

from dataclasses import dataclass, fields

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Camera:
    """A pinhole camera in COLMAP's axes; intrinsics in pixels, the first pixel's centre at (0.5, 0.5).

    With k1 and k2, its image is distorted radially: see tests/reference/distortion.py.
    """

    w2c: Array  # [4, 4] world to camera
    fx: float
    fy: float
    cx: float
    cy: float
    width: int
    height: int
    k1: float = 0.0
    k2: float = 0.0


@dataclass(frozen=True)
class Splats:
    """Raw parameters of N splats, or gradients of a loss with respect to them."""

    means: Array  # [N, 3] world units
    log_scales: Array  # [N, 3]
    quats: Array  # [N, 4] w x y z, any length
    logit_opacities: Array  # [N]
    sh0: Array  # [N, 3]
    shN: Array  # [N, K, 3], K = 0, 3, 8 or 15

    @property
    def num(self) -> int:
        return len(self.means)

    def __getitem__(self, rows: slice | Array) -> "Splats":
        return Splats(**{name: values[rows] for name, values in self.items()})

    def items(self) -> list[tuple[str, Array]]:
        return [(field.name, getattr(self, field.name)) for field in fields(self)]

    @staticmethod
    def concatenate(parts: "list[Splats]") -> "Splats":
        names = [name for name, _ in parts[0].items()]
        return Splats(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def float32_exact(values: Array) -> Array:
    """Values rounded to float32, so that a kernel and its reference start from the same numbers."""
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32).astype(np.float64)
