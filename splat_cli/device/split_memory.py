"""Memory of a GPU that lies partly in host memory, through the driver's virtual memory management."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from splat_cli.device.backend import ceil_div
from splat_cli.errors import DeviceError


def driver() -> Any:
    """The driver's library; its functions return an error code."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


_UNKNOWN_FUNCTION = 500  # CUDA_ERROR_NOT_FOUND


class _Location(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("windows_handle", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class SplitMemory:
    """Consecutive addresses: the first `on_device` bytes are device memory, the others page-locked host memory.

    Kernels, copies and fills use it like device memory; accesses of the second part go over PCIe. Made with the
    driver's virtual memory management. Sizes are rounded up to GRAIN.
    """

    GRAIN = 2 << 20
    _ON_DEVICE, _ON_HOST, _PINNED, _READ_WRITE = 1, 3, 1, 3  # CU_MEM_LOCATION_TYPE_DEVICE, .._HOST_NUMA, ...
    _OUT_OF_MEMORY = 2
    _HOST_NUMA_ID = 134  # cudaDevAttrHostNumaId

    def __init__(self, xp: Any, size: int, on_device: int) -> None:
        """MemoryError if there is not enough memory; DeviceError if the driver cannot map host memory."""
        self._driver, device = driver(), xp.cuda.Device().id
        node = max(xp.cuda.runtime.deviceGetAttribute(self._HOST_NUMA_ID, device), 0)
        self.on_device = min(self._rounded(on_device), self._rounded(size))
        self.size, self.address = self._rounded(size), ctypes.c_void_p()
        self._parts: list[tuple[int, int]] = []  # address and size of each mapped part
        self._call("cuMemAddressReserve", ctypes.byref(self.address), self.size, self.GRAIN, 0, 0)
        try:
            self._map(0, self.on_device, _Location(self._ON_DEVICE, device), device)
            self._map(self.on_device, self.size - self.on_device, _Location(self._ON_HOST, node), device)
        except BaseException:
            self.free()
            raise

    def free(self) -> None:
        """Return the memory; the device must have finished all work that uses it."""
        for address, size in self._parts:
            self._call("cuMemUnmap", address, size)
        self._parts = []
        self._call("cuMemAddressFree", self.address.value, self.size)

    def _map(self, first: int, size: int, location: _Location, device: int) -> None:
        if not size:
            return
        handle, address = ctypes.c_ulonglong(), (self.address.value or 0) + first
        wanted = _AllocationProperties(self._PINNED, 0, location)
        self._call("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(wanted), 0)
        try:
            self._call("cuMemMap", address, size, 0, handle.value, 0)
        finally:
            self._call("cuMemRelease", handle.value)  # the mapping keeps the memory
        self._parts.append((address, size))
        access = _Access(_Location(self._ON_DEVICE, device), self._READ_WRITE)
        self._call("cuMemSetAccess", address, size, ctypes.byref(access), 1)

    def _call(self, name: str, *args: Any) -> None:
        numbers = (ctypes.c_ulonglong(arg) if isinstance(arg, int) else arg for arg in args)
        try:
            code = self._driver[name](*numbers)
        except AttributeError:  # an old driver
            code = _UNKNOWN_FUNCTION
        if code == self._OUT_OF_MEMORY:
            raise MemoryError(f"no memory for {self.size - self.on_device:,} bytes on the host")
        if code:
            raise DeviceError(f"the driver cannot map host memory ({name}: error {code}): use --offload off")

    @classmethod
    def _rounded(cls, size: int) -> int:
        return ceil_div(size, cls.GRAIN) * cls.GRAIN


def can_map_host_memory(xp: Any) -> bool:
    """Whether the driver can map host memory; not on Windows, and not before CUDA 12.2. Tries it with GRAIN bytes."""
    try:
        SplitMemory(xp, 1, 0).free()
    except (DeviceError, MemoryError, RuntimeError):  # CuPy's errors are RuntimeErrors
        return False
    return True
