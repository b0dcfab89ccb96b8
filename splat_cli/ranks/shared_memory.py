"""Ranks on the CPU: processes of one host that exchange data through shared memory."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from splat_cli.device import DeviceArray
from splat_cli.ranks.protocol import Channel, Pair

_POLL = 5e-5  # seconds between two polls of the counters


def make_shared_memory(size: int) -> list[int]:
    """File descriptors of shared memory; each of `size` ranks needs all. Freed when every rank has closed them."""
    return [os.memfd_create("splat-ranks") for _ in range(1 + 2 * size)]


class SharedRanks:
    """See Ranks. files: from make_shared_memory.

    To send, a rank writes to its own file and increments its counter; the others read when the counter has reached
    the current round. Each rank alternates between two files: when it overwrites one, the counters of all others show
    that they have read it.
    """

    def __init__(self, channel: Channel, files: Sequence[int]) -> None:
        self.rank, self.size, self._channel, self._files = channel.rank, channel.size, channel, files
        self.broadcast, self.next_message, self.check, self.close = (
            channel.broadcast,
            channel.next_message,
            channel.check,
            channel.close,
        )
        self._counters = _mapped(files[0], 8 * channel.size).view(np.int64)
        self._round = 0
        self._regions: dict[int, np.ndarray] = {}

    def exchange(self, pairs: Sequence[Pair]) -> None:
        """See Ranks.exchange."""
        self._round += 1
        parts = [_bytes(sent) for sent, _ in pairs]
        length = sum(part.shape[1] for part in parts)
        np.concatenate(parts, axis=1, out=self._region(self.rank, length))
        self._counters[self.rank] = self._round
        while self._counters.min() < self._round:
            self.check()
            time.sleep(_POLL)
        for rank in set(range(self.size)) - {self.rank}:
            region, begin = self._region(rank, length)[self.rank], 0
            for _, received in pairs:
                target = _bytes(received)[rank]
                target[...] = region[begin : begin + len(target)]
                begin += len(target)

    begin_exchange = exchange

    def exchange_stream(self) -> AbstractContextManager[object]:
        """See Ranks.exchange_stream: there are no streams."""
        return nullcontext()

    def end_exchanges(self) -> None:
        """See Ranks.end_exchanges: exchanges are synchronous."""

    def send(self, array: DeviceArray, rank: int) -> None:
        """See Ranks.send."""
        self._channel.send_bytes(np.ascontiguousarray(array).data.cast("B"), rank)

    def receive(self, array: DeviceArray, rank: int) -> None:
        """See Ranks.receive."""
        array[...] = np.frombuffer(self._channel.receive_bytes(rank), array.dtype).reshape(array.shape)

    def _region(self, rank: int, length: int) -> np.ndarray:
        """Region with the data that `rank` sends in this round, uint8 [size, length]."""
        number, total = 1 + 2 * rank + self._round % 2, self.size * length
        if number not in self._regions or len(self._regions[number]) < total:
            self._regions[number] = _mapped(self._files[number], total)
        return self._regions[number][:total].reshape(self.size, length)


def _mapped(file: int, length: int) -> np.ndarray:
    """The first `length` bytes of a file, initially zero; all ranks request the same lengths in the same order."""
    if os.fstat(file).st_size < length:
        os.ftruncate(file, length)
    return np.frombuffer(mmap.mmap(file, length), np.uint8)


def _bytes(array: np.ndarray) -> np.ndarray:
    """uint8 [size, length] of a C-contiguous array [size, ...], without a copy."""
    return array.reshape(len(array), -1).view(np.uint8)
