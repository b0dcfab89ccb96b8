"""Checks of what is passed to kernels: an argument that does not fit is an error that names it, never silent garbage."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from splat_cli.device.signature import Parameter
from splat_cli.errors import ShapeError

_INTEGERS = "iu"


def check_arrays(kernel: str, **arrays: tuple[Any, Any, str]) -> dict[str, int]:
    """Check that arrays have the dtypes and shapes a kernel expects.

    Each keyword is `name=(array, dtype, "N 3")`: the string names or fixes every dimension, and a name must stand for one
    size over all arrays. Returns the sizes by name. Raises ShapeError for a dtype, a layout that is not C-contiguous, a
    number of dimensions or a size that does not fit.

        check_arrays("project", means=(means, np.float32, "N 3"), radii=(radii, np.int32, "N"))
    """
    sizes: dict[str, tuple[int, str]] = {}
    for name, (array, dtype, dimensions) in arrays.items():
        _check_array(kernel, name, array, np.dtype(dtype), dimensions.split(), sizes)
    return {dimension: size for dimension, (size, _) in sizes.items()}


def _check_array(
    kernel: str, name: str, array: Any, dtype: np.dtype, dimensions: list[str], sizes: dict[str, tuple[int, str]]
) -> None:
    expected = f"{dtype} [{', '.join(dimensions)}]"
    shape = getattr(array, "shape", None)
    if shape is None or not hasattr(array, "dtype"):
        raise ShapeError(f"{kernel}: {name} must be an array {expected}, got {type(array).__name__}")
    got = f"{array.dtype} {list(shape)}"
    if array.dtype != dtype or len(shape) != len(dimensions):
        raise ShapeError(f"{kernel}: {name} must be {expected}, got {got}")
    if not array.flags.c_contiguous:
        raise ShapeError(f"{kernel}: {name} {got} is not C-contiguous: pass a copy in C order")
    for dimension, size in zip(dimensions, shape, strict=True):
        if dimension.isdigit():
            if size != int(dimension):
                raise ShapeError(f"{kernel}: {name} must be {expected}, got {got}")
        elif sizes.setdefault(dimension, (size, name))[0] != size:
            other, owner = sizes[dimension]
            raise ShapeError(f"{kernel}: {name} must be {expected} with {dimension} = {other} as in {owner}, got {got}")


def check_launch(kernel: str, shape: Sequence[int], what: str) -> tuple[int, int, int]:
    """A grid or block of 1 to 3 positive ints as (x, y, z); ShapeError otherwise."""
    values = tuple(int(n) for n in shape)
    if not 1 <= len(values) <= 3 or min(values) < 1:
        raise ShapeError(f"{kernel}: {what} must be 1 to 3 positive ints, got {tuple(shape)}")
    x, y, z = (values + (1, 1))[:3]
    return x, y, z


def check_count(kernel: str, parameters: Sequence[Parameter], args: Sequence[Any]) -> None:
    """ShapeError unless there is one argument for each parameter."""
    if len(args) != len(parameters):
        names = ", ".join(p.name for p in parameters)
        raise ShapeError(f"{kernel}: expected {len(parameters)} arguments ({names}), got {len(args)}")


def check_pointer(kernel: str, parameter: Parameter, array: Any, array_type: type) -> None:
    """ShapeError unless `array` is a contiguous array of this backend with the dtype that the pointer points to."""
    if not isinstance(array, array_type):
        hint = ": wrap it with backend.upload()" if isinstance(array, np.ndarray) else ""
        raise ShapeError(
            f"{kernel}: {parameter.name} ({parameter.type}) must be a {array_type.__module__} array or None, "
            f"got {type(array).__module__}.{type(array).__name__}{hint}"
        )
    if parameter.dtype is not None and array.dtype != parameter.dtype:
        raise ShapeError(f"{kernel}: {parameter.name} ({parameter.type}) must hold {parameter.dtype}, got {array.dtype}")
    if not array.flags.c_contiguous:
        raise ShapeError(f"{kernel}: {parameter.name} {array.dtype} {list(array.shape)} is not C-contiguous")


def scalar_value(kernel: str, parameter: Parameter, value: Any) -> np.generic:
    """The argument as a NumPy scalar of exactly the parameter's type; ShapeError for any other type."""
    dtype = parameter.dtype
    assert dtype is not None
    if isinstance(value, np.generic):
        if value.dtype == dtype:
            return value
    elif type(value) is bool:
        if dtype.kind == "b":
            return np.bool_(value)
    elif (type(value) is int and dtype.kind in _INTEGERS) or (type(value) is float and dtype.kind == "f"):
        try:
            return dtype.type(value)
        except OverflowError:
            raise ShapeError(f"{kernel}: {parameter.name} ({parameter.type}) cannot hold {value}") from None
    got = value.dtype if isinstance(value, np.generic) else type(value).__name__
    raise ShapeError(f"{kernel}: {parameter.name} ({parameter.type}) must be a {dtype} scalar, got {got} {value!r}")


def struct_value(kernel: str, parameter: Parameter, value: Any) -> np.void:
    """A structured scalar, or the only element of a 0-d structured array; ShapeError otherwise."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, np.void):
        raise ShapeError(
            f"{kernel}: {parameter.name} (struct {parameter.type}) must be a NumPy structured scalar, got {type(value).__name__}"
        )
    return value
