"""Peak use of main memory and GPU memory while a block runs."""

from __future__ import annotations

import subprocess
import threading
from contextlib import suppress

import psutil


class PeakMemory:
    """Samples the memory of this process and its children, and of each GPU, several times per second."""

    def __init__(self) -> None:
        self.main, self.gpus = 0, dict[str, int]()
        self._done, self._watch = threading.Event(), threading.Thread(target=self._watch_main, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._watch.start()
        query = ["--query-gpu=index,memory.used", "--format=csv,noheader,nounits", "-lms", "200"]
        with suppress(OSError):  # without nvidia-smi
            self._smi = subprocess.Popen(["nvidia-smi", *query], stdout=subprocess.PIPE, text=True)
            threading.Thread(target=self._watch_gpus, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        if hasattr(self, "_smi"):
            self._smi.kill()
        self._watch.join()

    def _watch_main(self) -> None:
        this = psutil.Process()
        while not self._done.wait(0.2):
            processes = this, *this.children(recursive=True)
            self.main = max(self.main, sum(map(_private_bytes, processes)))

    def _watch_gpus(self) -> None:
        assert self._smi.stdout is not None
        for line in self._smi.stdout:
            with suppress(ValueError):  # not a line with a number
                index, used = line.split(",")
                self.gpus[index] = max(self.gpus.get(index, 0), int(used) << 20)


def _private_bytes(process: psutil.Process) -> int:
    """Resident bytes without mapped files."""
    try:
        memory = process.memory_info()
        return int(memory.rss - memory.shared)
    except psutil.Error:
        return 0
