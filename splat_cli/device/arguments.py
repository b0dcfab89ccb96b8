"""Parameters of kernels, parsed from their source, and checks of launches against them; errors name the argument."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from splat_cli.errors import ShapeError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAUNCH_BOUNDS = re.compile(r"__launch_bounds__\s*\([^()]*\)")
_KERNEL = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(\w+)\s*\(([^()]*)\)')
_QUALIFIER = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|__grid_constant__)\b")

_DTYPES = {
    "float": np.float32, "double": np.float64, "bool": np.bool_,
    "char": np.int8, "signed char": np.int8, "unsigned char": np.uint8, "uint8_t": np.uint8,
    "short": np.int16, "unsigned short": np.uint16,
    "int": np.int32, "int32_t": np.int32, "unsigned": np.uint32, "unsigned int": np.uint32, "uint32_t": np.uint32,
    "long long": np.int64, "int64_t": np.int64,
    "unsigned long long": np.uint64, "uint64_t": np.uint64, "size_t": np.uint64,
}  # fmt: skip
_VECTOR = re.compile(r"(float|double|int|uint|uchar|ulonglong)[1234]")
_VECTOR_BASES = {"uint": "unsigned", "uchar": "unsigned char", "ulonglong": "unsigned long long"}


@dataclass(frozen=True)
class Parameter:
    """One parameter. dtype: type of the scalar or of the pointer's elements; None for a struct or void."""

    name: str
    type: str
    is_pointer: bool
    dtype: np.dtype | None

    @property
    def label(self) -> str:
        """Name and type, for messages."""
        return f"{self.name} ({self.type})"


def _parse_parameter(text: str) -> Parameter:
    is_pointer = "*" in text
    words = _QUALIFIER.sub(" ", text.replace("*", " ")).split()
    type_name = " ".join(words[:-1])
    base = type_name
    if is_pointer and (vector := _VECTOR.fullmatch(type_name)):
        base = _VECTOR_BASES.get(vector[1], vector[1])
    dtype = np.dtype(_DTYPES[base]) if base in _DTYPES else None
    return Parameter(words[-1], type_name + " *" * is_pointer, is_pointer, dtype)


def parse_kernels(source: str) -> dict[str, tuple[Parameter, ...]]:
    """The parameters of each `extern "C" __global__` function of a kernel file, by kernel name."""
    text = _LAUNCH_BOUNDS.sub(" ", _COMMENT.sub(" ", source))
    kernels = {}
    for name, parameters in _KERNEL.findall(text):
        kernels[name] = tuple(_parse_parameter(p) for p in parameters.split(",") if p.strip())
    return kernels


MAX_BLOCK = 1024  # threads per block
MAX_GRID_YZ = 65535  # blocks along y or z
_KINDS = {int: "iu", float: "f", bool: "b"}  # kinds of dtype for which a Python scalar is accepted


def check_arrays(kernel: str, **arrays: tuple[Any, Any, str]) -> dict[str, int]:
    """Check that arrays have the dtypes and shapes a kernel expects.

    Each keyword is `name=(array, dtype, "N 3")`: the string gives a name or a number for each dimension. A name means
    the same size in all arrays. Returns the sizes by name. Raises ShapeError if a dtype, the number of dimensions or a
    size differs, or if an array is not C-contiguous.

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
    if not hasattr(array, "dtype") or not hasattr(array, "shape"):
        raise ShapeError(f"{kernel}: {name} must be an array {expected}, got {type(array).__name__}")
    got = f"{array.dtype} {list(array.shape)}"
    if array.dtype != dtype or len(array.shape) != len(dimensions):
        raise ShapeError(f"{kernel}: {name} must be {expected}, got {got}")
    if not array.flags.c_contiguous:
        raise ShapeError(f"{kernel}: {name} {got} is not C-contiguous: pass a copy in C order")
    for dimension, size in zip(dimensions, array.shape, strict=True):
        if dimension.isdigit():
            if size != int(dimension):
                raise ShapeError(f"{kernel}: {name} must be {expected}, got {got}")
        elif sizes.setdefault(dimension, (size, name))[0] != size:
            other, owner = sizes[dimension]
            raise ShapeError(f"{kernel}: {name} must be {expected} with {dimension} = {other} as in {owner}, got {got}")


def check_launch(kernel: str, grid: Sequence[int], block: Sequence[int]) -> tuple[int, ...]:
    """Grid and block, 1 to 3 positive ints each, as six ints; ShapeError if a GPU cannot launch them."""
    shape = (*_three(kernel, grid, "grid"), *_three(kernel, block, "block"))
    if shape[3] * shape[4] * shape[5] > MAX_BLOCK:
        raise ShapeError(f"{kernel}: a block has at most {MAX_BLOCK} threads, got {tuple(block)}")
    if max(shape[1], shape[2]) > MAX_GRID_YZ:
        raise ShapeError(f"{kernel}: a grid has at most {MAX_GRID_YZ} blocks along y and z, got {tuple(grid)}")
    return shape


def _three(kernel: str, values: Sequence[int], what: str) -> tuple[int, ...]:
    if not 1 <= len(values) <= 3 or min(values) < 1:
        raise ShapeError(f"{kernel}: {what} must be 1 to 3 positive ints, got {tuple(values)}")
    return (*(int(n) for n in values), 1, 1)[:3]


def check_count(kernel: str, parameters: Sequence[Parameter], args: Sequence[Any]) -> None:
    """ShapeError unless there is one argument for each parameter."""
    if len(args) != len(parameters):
        names = ", ".join(p.name for p in parameters)
        raise ShapeError(f"{kernel}: expected {len(parameters)} arguments ({names}), got {len(args)}")


def check_pointer(kernel: str, parameter: Parameter, array: Any, array_type: type) -> None:
    """ShapeError unless `array` is a contiguous array of this backend with the dtype that the pointer points to."""
    if not isinstance(array, array_type):
        wanted, got = (f"{t.__module__}.{t.__name__}" for t in (array_type, type(array)))
        raise ShapeError(f"{kernel}: {parameter.label} must be a {wanted} or None, got {got}; see backend.upload()")
    dtype, shape, flags = (getattr(array, name) for name in ("dtype", "shape", "flags"))
    if parameter.dtype is not None and dtype != parameter.dtype:
        raise ShapeError(f"{kernel}: {parameter.label} must hold {parameter.dtype}, got {dtype} {list(shape)}")
    if not flags.c_contiguous:
        raise ShapeError(f"{kernel}: {parameter.label} must be C-contiguous, got a view {dtype} {list(shape)}")


def scalar_value(kernel: str, parameter: Parameter, value: Any) -> np.generic:
    """The argument as a NumPy scalar of exactly the parameter's type; ShapeError for any other type.

    A Python int is accepted for any integer type, a Python float for any float type, if the value fits.
    """
    dtype = parameter.dtype
    assert dtype is not None
    if isinstance(value, np.generic):
        if value.dtype == dtype:
            return value
    elif dtype.kind in _KINDS.get(type(value), ""):
        try:
            return dtype.type(value)
        except OverflowError:
            raise ShapeError(f"{kernel}: {parameter.label} cannot hold {value}") from None
    got = value.dtype if isinstance(value, np.generic) else type(value).__name__
    raise ShapeError(f"{kernel}: {parameter.label} must be a {dtype} scalar, got {got}: {value!r}")


def struct_value(kernel: str, parameter: Parameter, value: Any) -> np.void:
    """A structured scalar, or the element of a 0-d structured array; ShapeError otherwise."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, np.void):
        got = type(value).__name__
        raise ShapeError(f"{kernel}: {parameter.label} is a struct: pass a NumPy structured scalar, got {got}")
    return value


def describe(arg: Any) -> str:
    """An argument for messages: dtype and shape of an array, the value of anything else."""
    if arg is None:
        return "null"
    if isinstance(arg, np.generic) or not hasattr(arg, "shape"):
        return str(arg)
    return f"{'struct' if arg.dtype.names else arg.dtype} {list(arg.shape)}"  # without contents: they may be on a GPU
