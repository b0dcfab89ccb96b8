"""Count the device's work in a round of density control: array operations, kernel launches, reads by the host.

Runs on the CPU with arrays that count operations. On a GPU, CuPy would launch a kernel for each operation and compile
one for each kind of operation. Prints a line for each strategy and step.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

import numpy as np

from splat_cli.config.presets import load_config
from splat_cli.density import make_strategy
from splat_cli.device import open_backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.model.model import Model
from splat_cli.run.plan import resolve_plan
from splat_cli.scene.view import View

STRATEGIES = ("adc", "mcmc", "splits", "default")
COUNTS: Counter[str] = Counter()
FREE = {"empty", "zeros", "zeros_like", "empty_like"}  # allocation, and memset
AHEAD = {"cumsum", "argsort"}  # compiled ahead of time in CuPy's wheels


class CountedArray(np.ndarray):
    """An array that counts operations on it."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        COUNTS[f"array {ufunc.__name__}"] += method != "accumulate"  # a part of cumsum
        plain = tuple(np.asarray(one) if isinstance(one, CountedArray) else one for one in inputs)
        if out is not None:
            options["out"] = tuple(np.asarray(one) for one in out)
        result = getattr(ufunc, method)(*plain, **options)
        COUNTS["read"] += isinstance(result, np.integer)  # reads counts that the host needs for allocations
        return _counted(result)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        kind = "ahead" if function.__name__ in AHEAD else "array"
        if function.__name__ not in FREE:
            COUNTS[f"{kind} {function.__name__}"] += 1
        COUNTS["read"] += function.__name__ == "nonzero"  # waits for their number
        return _counted(super().__array_function__(function, (np.ndarray,), args, options))

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if any(isinstance(part, np.ndarray) for part in parts):
            COUNTS["array take"] += 1
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        whole = np.ndarray.__getitem__(self, key)
        if not (isinstance(whole, np.ndarray) and whole.flags.c_contiguous and key is Ellipsis):
            COUNTS["array put"] += 1  # otherwise a memset or a copy
        super().__setitem__(key, value)

    def astype(self, *args: Any, **options: Any) -> Any:
        COUNTS["array astype"] += 1
        return super().astype(*args, **options)


def _counted(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(map(_counted, result))
    return result.view(CountedArray) if isinstance(result, np.ndarray) else result


class CountedModule:
    """NumPy with counting arrays."""

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(np, name)
        if not callable(attribute) or isinstance(attribute, type):
            return attribute
        return lambda *args, **options: _counted(attribute(*args, **options))


class CountedBackend:
    """The CPU backend, which counts launches and downloads."""

    def __init__(self) -> None:
        self._backend = open_backend("cpu")
        self.xp = CountedModule()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def kernel(self, file: str, name: str, **defines: int) -> Any:
        COUNTS[f"kernel {name}"] += 1
        return self._backend.kernel(file, name, **defines)

    def upload(self, array: np.ndarray) -> Any:
        return _counted(self._backend.upload(array))

    def download(self, array: Any) -> np.ndarray:
        COUNTS["read"] += 1
        return self._backend.download(array)


class Scorer:
    """Random errors, a few of them large, so that most copies go to a few splats."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def scores(self, num_views: int) -> Any:
        rng, num = np.random.default_rng(0), self._model.num
        return tuple(_counted(rng.random(num).astype(np.float32) ** 500) for _ in range(2))


def some_model(backend: Any, num: int) -> Model:
    """Splats of degree 3 with statistics; one in fifty is transparent."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    opacities = np.where(rng.random(num) < 0.02, -9, normal(num)).astype(np.float32)
    arrays = SplatArrays(
        normal(num, 3), normal(num, 3) - 4, normal(num, 4), opacities, normal(num, 3), normal(num, 15, 3)
    )
    model = Model(backend, arrays, 2 * num)
    model.stats[:, :num] = np.abs(normal(2, num)) * [[1e-4], [1]]
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splats", type=int, default=20_000)
    parser.add_argument("--kinds", action="store_true", help="list each counted operation")
    options = parser.parse_args()
    for name in STRATEGIES:
        backend: Any = CountedBackend()
        requested = load_config(None, {"strategy": name, "splat_budget": 0.0})
        view = View("one", None, 800, 533, 700, 700, 400, 266, np.eye(4), None, None)
        strategy = make_strategy(resolve_plan(requested, [view]).config, extent=1.0)
        model = some_model(backend, options.splats)
        COUNTS.clear()
        model.remove_nonfinite()
        strategy.refine(6000, model, Scorer(model), np.random.default_rng(0))
        sums = {kind: [n for key, n in COUNTS.items() if key.startswith(kind)] for kind in ("array", "ahead", "kernel")}
        reads = f"{COUNTS['read']} reads by the host"
        parts = [f"{sum(counts)} {kind} ({len(counts)} kinds)" for kind, counts in sums.items()]
        print(f"{name:8} {options.splats} -> {model.num} splats: {', '.join(parts)}, {reads}")
        if options.kinds:
            print("   ", ", ".join(f"{key} {count}" for key, count in sorted(COUNTS.items())))


if __name__ == "__main__":
    main()
