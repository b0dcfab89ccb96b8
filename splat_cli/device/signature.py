"""Kernel signatures, parsed from the source, against which launches are checked."""

import re
from dataclasses import dataclass

import numpy as np

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
    """One parameter; `dtype` is that of a scalar or of what a pointer points to, None for a struct or void."""

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
