"""CPU time of each kernel while a command runs on the CPU backend; for the demo, also of its parts.

    python scripts/bench/cpu_time.py demo OUT --device cpu
    python scripts/bench/cpu_time.py train SCENE -o OUT --device cpu --steps 300

Counts CPU seconds of all threads, which depend less on the load of the machine than wall time.
"""

import atexit
import functools
import importlib
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from splat_cli.cli.main import main
from splat_cli.device.cpu import CpuKernel


class CpuTimes:
    """Seconds and launches by kernel; replaces `CpuKernel.launch`."""

    def __init__(self) -> None:
        self.seconds, self.launches = defaultdict[str, float](float), Counter[str]()
        self._launch = CpuKernel.launch

    def install(self) -> None:
        """Measure all launches from now on, and print the table at exit."""
        times = self

        def timed(kernel: CpuKernel, *args: Any) -> None:
            start = time.process_time()
            times._launch(kernel, *args)
            times.seconds[kernel.name] += time.process_time() - start
            times.launches[kernel.name] += 1

        setattr(CpuKernel, "launch", timed)  # noqa: B010  (an assignment to a method has no type)
        atexit.register(self.print)

    def print(self) -> None:
        """Print to stderr, longest first."""
        for name, seconds in sorted(self.seconds.items(), key=lambda item: -item[1]):
            launches = self.launches[name]
            print(f"{name:28} {seconds:8.2f} s {launches:7} x {1e3 * seconds / launches:8.3f} ms", file=sys.stderr)
        total = sum(self.seconds.values())
        print(f"{'all kernels':28} {total:8.2f} s of {time.process_time():.2f} s of the process", file=sys.stderr)


class DemoParts:
    """Seconds of the parts of `splat demo`, of all threads and of the main one."""

    def __init__(self) -> None:
        self.seconds = dict[str, tuple[float, float]]()

    def install(self) -> None:
        """Measure the parts of the demo, and print the table at exit."""
        names = ("make_sample_scene", "train_scene", "_render_path", "bake_for_viewers", "write_ply")
        for module, part in [
            *(("splat_cli.commands.demo", name) for name in names),
            ("splat_cli.report", "try_report"),
        ]:
            self._measure(importlib.import_module(module), part)
        self.seconds["start"] = (time.process_time(), time.thread_time())
        atexit.register(self.print)

    def _measure(self, module: Any, part: str) -> None:
        function = getattr(module, part)

        @functools.wraps(function)
        def timed(*args: Any, **options: Any) -> Any:
            start = time.process_time(), time.thread_time()
            try:
                return function(*args, **options)
            finally:
                self.seconds[part] = (time.process_time() - start[0], time.thread_time() - start[1])

        setattr(module, part, timed)

    def print(self) -> None:
        """Print to stderr, in the order of the parts."""
        for part, (by_all, by_main) in self.seconds.items():
            print(f"{part:28} {by_all:8.2f} s, {by_main:.2f} of them the main thread's", file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:2] == ["demo"]:
        DemoParts().install()
    CpuTimes().install()
    main()
