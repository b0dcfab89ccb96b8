"""Adam moments; cuda_src/optim/adam.cuh applies the updates inside the backward kernels."""

from __future__ import annotations

from typing import Any

from splat_cli.gaussians.splats import Splats


class Moments:
    """First and second moments of all parameters, float32 [rows, capacity], in the layout of the splats' planes.

    packed: both moments in one plane of words, `first`, as bfloat16 (cuda_src/optim/moments.cuh); `second` is None.
    """

    def __init__(self, splats: Splats, packed: bool = False) -> None:
        zeros, shape = splats.backend.xp.zeros, splats.params.shape  # zeros_like would write to all of NumPy's memory
        self.packed = packed
        self.first = zeros(shape, "float32")
        self.second: Any | None = None if packed else zeros(shape, "float32")

    def planes(self) -> dict[str, Any]:
        """The planes by the names that checkpoints give them."""
        return {"moments": self.first} if self.packed else {"moments1": self.first, "moments2": self.second}

    def pair(self) -> tuple[Any, Any]:
        """First and second moments for kernels that clear both; where they are packed, the same plane twice."""
        return self.first, self.first if self.packed else self.second

    def set_planes(self, planes: dict[str, Any]) -> None:
        """Take planes of these names, of any capacity."""
        self.first = planes["moments" if self.packed else "moments1"]
        self.second = planes.get("moments2")
