"""Formatting of numbers."""

import math


def compact(value: float) -> str:
    """950, 24.9k, 1.3M: three digits and a suffix."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def duration(seconds: float) -> str:
    """4.2 s, 3 m 20 s, 1 h 5 m."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} m {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} m"


def size(num_bytes: float) -> str:
    """A number of bytes in MiB or GiB."""
    return f"{num_bytes / 2**30:.1f} GiB" if num_bytes >= 2**30 else f"{num_bytes / 2**20:.0f} MiB"


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """About `count` round numbers from `low` to `high`, at least two: multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / count
    power = 10 ** math.floor(math.log10(rough))
    steps = [factor * power for factor in (1, 2, 5, 10)]
    chosen = next(number for number, step in enumerate(steps) if step >= 0.999 * rough)
    found = _multiples(steps[chosen], low, high)
    return found if len(found) > 1 else _multiples(steps[chosen - 1], low, high)


def _multiples(step: float, low: float, high: float) -> list[float]:
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]
