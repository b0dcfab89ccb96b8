"""Launches of the CUDA backend's kernels, with checked arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from splat_cli.device.arguments import check_count, check_launch, check_pointer, describe, scalar_value, struct_value
from splat_cli.device.signature import Parameter
from splat_cli.errors import KernelError


class CudaKernel:
    """One function of a compiled module. wait: None, or what waits for the device before and after each launch."""

    def __init__(
        self, name: str, parameters: tuple[Parameter, ...], function: Any, array_type: type,
        wait: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self._parameters = parameters
        self._function = function
        self._array_type = array_type
        self._wait = wait

    def __call__(self, grid: Sequence[int], block: Sequence[int], *args: Any) -> None:
        """See Kernel."""
        shape = check_launch(self.name, grid, block)
        check_count(self.name, self._parameters, args)
        values = tuple(map(self._value, self._parameters, args))
        if self._wait is None:
            self._function(shape[:3], shape[3:], values)
            return
        try:  # an error stays with the device: what failed before is no fault of this kernel
            self._wait()
        except RuntimeError as error:  # CuPy's errors of CUDA's runtime and driver are RuntimeErrors
            raise KernelError(f"work of the device before kernel {self.name} failed: {error}") from error
        try:
            self._function(shape[:3], shape[3:], values)
            self._wait()
        except RuntimeError as error:
            raise KernelError(f"{self._described(shape, args)} failed: {error}") from error

    def _described(self, shape: Sequence[int], args: Sequence[Any]) -> str:
        """A launch in words: kernel, grid, block, arguments."""
        shown = ", ".join(f"{p.name} {describe(arg)}" for p, arg in zip(self._parameters, args, strict=True))
        return f"kernel {self.name} on grid {tuple(shape[:3])}, block {tuple(shape[3:])} with {shown}"

    def _value(self, parameter: Parameter, arg: Any) -> Any:
        if parameter.is_pointer:
            if arg is None:
                return np.uint64(0)
            check_pointer(self.name, parameter, arg, self._array_type)
            return arg
        if parameter.dtype is not None:
            return scalar_value(self.name, parameter, arg)
        return struct_value(self.name, parameter, arg)
