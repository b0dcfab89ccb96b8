"""CUDA graphs whose kernels keep the priorities of the streams that they were captured from."""

import ctypes
import sys
import weakref
from typing import Any

from splat_cli.errors import DeviceError

USE_NODE_PRIORITY = 8  # CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY; else the launching stream's priority counts


class PrioritizedGraph:
    """An executable of a captured cupy.cuda.Graph, whose own one ignores priorities: CuPy passes no flags."""

    def __init__(self, graph: Any) -> None:
        """DeviceError if the driver refuses the graph."""
        self._driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        self._graph, self._executable = graph, ctypes.c_void_p()
        self._check(self._driver.cuGraphInstantiateWithFlags(
            ctypes.byref(self._executable), ctypes.c_void_p(graph.graph), ctypes.c_ulonglong(USE_NODE_PRIORITY)
        ))  # fmt: skip
        weakref.finalize(self, self._driver.cuGraphExecDestroy, self._executable).atexit = False

    def launch(self, stream: Any) -> None:
        """Queue the graph on a cupy.cuda.Stream."""
        self._check(self._driver.cuGraphLaunch(self._executable, ctypes.c_void_p(stream.ptr)))

    @staticmethod
    def _check(code: int) -> None:
        if code:
            raise DeviceError(f"CUDA rejects a captured graph (error {code}): update the driver, or use --debug")
