"""Radix sort on the GPU: the host side of cuda_src/sort.cu."""

from __future__ import annotations

from typing import Any

from splat_cli.device.backend import Backend

BLOCK_KEYS = 2048  # keys a block owns, as in sort.cu
THREADS = 256
MAX_DIGIT_BITS = 8


def digits(num_bits: int) -> list[tuple[int, int]]:
    """(shift, bits) of each pass: as few passes as possible, of nearly equal width."""
    num_passes = max(1, -(-num_bits // MAX_DIGIT_BITS))
    edges = [num_bits * k // num_passes for k in range(num_passes + 1)]
    return [(low, high - low) for low, high in zip(edges, edges[1:], strict=False)]


class RadixSort:
    """Stable sort of uint32 pairs of up to `capacity`, with its scratch memory; reusable and capturable."""

    def __init__(self, backend: Backend, capacity: int) -> None:
        self.backend = backend
        self.num_blocks = max(1, -(-capacity // BLOCK_KEYS))
        self.block_counts = backend.xp.empty((1 << MAX_DIGIT_BITS) * self.num_blocks, "uint32")
        self.digit_counts = backend.xp.empty(1 << MAX_DIGIT_BITS, "uint32")
        self.spare_keys = backend.xp.empty(capacity, "uint32")
        self.spare_values = backend.xp.empty(capacity, "uint32")

    def __call__(self, keys: Any, values: Any, keys_out: Any, values_out: Any, count: Any, num_bits: int) -> None:
        """Sort ascending by the low `num_bits` bits.

        keys, values, keys_out, values_out: uint32 [capacity], the outputs apart from the inputs.
        count: uint32 [1] on the device.
        """
        passes = digits(num_bits)
        outputs = [(keys_out, values_out), (self.spare_keys, self.spare_values)]
        source = (keys, values)
        for k, (shift, bits) in enumerate(passes):
            target = outputs[(len(passes) - 1 - k) % 2]  # the last pass writes to the caller's arrays
            self._pass(source, target, count, shift, bits)
            source = target

    def _pass(self, source: tuple, target: tuple, count: Any, shift: int, bits: int) -> None:
        grid, block, kernel = (self.num_blocks,), (THREADS,), self.backend.kernel
        kernel("sort", "radix_count")(grid, block, source[0], count, shift, bits, self.num_blocks, self.block_counts)
        kernel("sort", "radix_scan")((1 << bits,), block, count, self.num_blocks, self.block_counts, self.digit_counts)
        kernel("sort", "radix_scatter")(
            grid, block, *source, count, shift, bits, self.num_blocks, self.block_counts, self.digit_counts, *target
        )


def make_sorter(backend: Backend, capacity: int) -> Any:
    """A callable (keys, values, keys_out, values_out, count, num_bits) for up to `capacity` pairs."""
    return RadixSort(backend, capacity) if backend.name == "cuda" else backend.sort_pairs
