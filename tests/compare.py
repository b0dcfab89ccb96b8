"""Comparison of kernels with their references: checks errors, and prints a table of them with `pytest -s`."""

from collections.abc import Iterator

import numpy as np
import pytest

from splat_cli.device import Backend

FORWARD = 1e-4
BACKWARD = 1e-3


class Comparison:
    """Largest errors of each output of each kernel on one backend."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.worst: dict[tuple[str, str], tuple[float, float]] = {}

    def check(self, kernel: str, output: str, actual: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
        """Asserts |actual - expected| <= tolerance |expected|, and at most ten times that for each element.

        An element's error is relative to its size or, if larger, to the root mean square of its column (last axis): a
        sum that nearly cancels has no relative accuracy.
        """
        actual = np.asarray(actual, np.float64)
        assert actual.shape == expected.shape
        assert np.isfinite(actual).all(), f"{kernel}: {output} is not finite"
        difference = np.abs(actual - expected)
        overall = float(np.linalg.norm(difference) / max(np.linalg.norm(expected), 1e-30))
        columns = tuple(range(expected.ndim - 1)) if expected.ndim == 2 else None
        typical = np.sqrt((expected**2).mean(axis=columns))
        element = float((difference / np.maximum(np.abs(expected), np.maximum(typical, 1e-30))).max(initial=0))
        before = self.worst.get((kernel, output), (0.0, 0.0))
        self.worst[kernel, output] = max(before[0], overall), max(before[1], element)
        assert overall <= tolerance, f"{kernel}: {output} is off by {overall:.1e}"
        assert element <= 10 * tolerance, f"{kernel}: an element of {output} is off by {element:.1e}"

    def table(self) -> str:
        lines = [
            f"\n{self.backend.describe()}",
            f"{'kernel':22}{'output':24}{'relative error':>16}{'worst element':>16}",
        ]
        lines += [
            f"{kernel:22}{output:24}{overall:16.1e}{element:16.1e}"
            for (kernel, output), (overall, element) in self.worst.items()
        ]
        return "\n".join(lines)


@pytest.fixture(scope="session")
def comparison(backend: Backend) -> Iterator[Comparison]:
    record = Comparison(backend)
    yield record
    if record.worst:
        print(record.table())
