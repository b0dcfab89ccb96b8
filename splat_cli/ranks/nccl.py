"""Ranks on NVIDIA GPUs of one host, through NCCL."""

from __future__ import annotations

import os
import subprocess
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from splat_cli.device import DeviceArray
from splat_cli.errors import DeviceError
from splat_cli.ranks.protocol import Channel, Pair

_NOT_READY = 600  # value of cudaErrorNotReady
_FIRST_BYTES = 1 << 22  # size of the first transfer between each pair of ranks


def why_no_nccl() -> str:
    """Why NCCL cannot be used here, with advice; empty if it can."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CuPy's own warnings about a missing library; the reason names it
            from cupy.cuda import nccl
    except ImportError:
        return "CuPy is not installed, or without NCCL (pip install 'splat-cli[cuda13]')"
    if not nccl.available:
        return "CuPy finds no NCCL (pip install nvidia-nccl-cu13, or nvidia-nccl-cu12 with CUDA 12)"
    return ""


def nccl_version() -> str:
    """Version of the library that CuPy has loaded, such as "2.28.9"."""
    from cupy.cuda import nccl

    version = nccl.get_version()
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def gpu_links() -> dict[str, int]:
    """Number of pairs of this machine's GPUs by kind of link, as `nvidia-smi topo -m` names it (NV18, PIX, SYS).

    Empty if nvidia-smi does not report it.
    """
    try:
        topology = subprocess.run(
            ["nvidia-smi", "topo", "-m"], capture_output=True, text=True, timeout=20, check=False
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    links: dict[str, int] = {}
    rows = [line.split() for line in topology.splitlines() if line.startswith("GPU")]
    for number, row in enumerate(rows):
        for link in row[number + 2 : len(rows) + 1]:  # above the diagonal
            links[link] = links.get(link, 0) + 1
    return links


class NcclRanks:
    """See Ranks. Transfers are outside of captured graphs, on the backend's stream or on a separate stream."""

    def __init__(self, channel: Channel, stream: Any) -> None:
        if reason := why_no_nccl():
            raise DeviceError(f"several GPUs need NCCL: {reason}")
        os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # multicast does not help sends between pairs
        from cupy.cuda import Device, Event, Stream, nccl, runtime

        self.rank, self.size, self._channel = channel.rank, channel.size, channel
        self._stream, self._nccl = stream, nccl
        # high priority: transfers start even if kernels of the other stream occupy the device
        self._exchange_stream = Stream(non_blocking=True, priority=-1)
        self._begin, self._end = (Event(disable_timing=True) for _ in range(2))  # around exchanges
        self.broadcast, self.next_message = channel.broadcast, channel.next_message
        if channel.rank == 0:
            channel.broadcast(unique_id := nccl.get_unique_id())
        else:
            (unique_id,) = channel.next_message()
        self._unique_id, self._is_aborted, self._is_in_call = unique_id, False, False
        self._runtime, self._event, self._is_recorded = runtime, Event(disable_timing=True), False
        self._communicator: Any | None = None
        self._failure: Exception | None = None
        self._connecting = threading.Thread(target=self._connect, args=(Device(),), daemon=True)
        self._connecting.start()  # takes half a second, while the scene is read; the first transfer waits for it

    def exchange(self, pairs: Sequence[Pair]) -> None:
        """See Ranks.exchange."""
        self._exchange(pairs, self._stream)

    def begin_exchange(self, pairs: Sequence[Pair]) -> None:
        """See Ranks.begin_exchange."""
        self._begin.record(self._stream)
        self._exchange_stream.wait_event(self._begin)
        self._exchange(pairs, self._exchange_stream)
        self._end.record(self._exchange_stream)

    @contextmanager
    def exchange_stream(self) -> Iterator[None]:
        """See Ranks.exchange_stream. Kernels use CuPy's current stream, transfers the stream of this object."""
        stream, self._stream = self._stream, self._exchange_stream
        try:
            with self._exchange_stream:
                yield
                self._end.record(self._exchange_stream)
        finally:
            self._stream = stream

    def end_exchanges(self) -> None:
        """See Ranks.end_exchanges."""
        self._stream.wait_event(self._end)

    def send(self, array: DeviceArray, rank: int) -> None:
        """See Ranks.send."""
        self._group([("send", array, rank)], self._stream)

    def receive(self, array: DeviceArray, rank: int) -> None:
        """See Ranks.receive."""
        self._group([("recv", array, rank)], self._stream)

    def check(self) -> None:
        """See Ranks.check."""
        self._channel.check()

    def abort(self) -> None:
        """End transfers that wait for a lost rank; called from another thread."""
        self._is_aborted = True
        communicator, self._communicator = self._communicator, None
        if communicator is not None:
            communicator.abort()

    def is_waiting(self) -> bool:
        """After `abort`: whether an NCCL call or work of the stream is still running; called from another thread."""
        if self._is_in_call:
            return True
        try:
            if not self._is_recorded:
                self._event.record(self._stream)
                self._is_recorded = True
            return bool(self._runtime.eventQuery(self._event.ptr) == _NOT_READY)
        except RuntimeError:  # the stream has failed, and the main thread gets that error at once
            return False

    def close(self) -> None:
        """See Ranks.close."""
        self.abort()
        self._channel.close()

    def _exchange(self, pairs: Sequence[Pair], stream: Any) -> None:
        others = [rank for rank in range(self.size) if rank != self.rank]
        sends = [("send", sent[rank], rank) for sent, _ in pairs for rank in others]
        self._group(sends + [("recv", received[rank], rank) for _, received in pairs for rank in others], stream)

    def _connect(self, device: Any) -> None:
        """Create the communicator, and transfer _FIRST_BYTES between all ranks, which connects them."""
        from cupy.cuda import Memory

        try:
            device.use()
            self._communicator = self._nccl.NcclCommunicator(self.size, self._unique_id, self.rank)
            memory, others = Memory(2 * _FIRST_BYTES * self.size), set(range(self.size)) - {self.rank}
            pointers = [memory.ptr + number * _FIRST_BYTES for number in range(2 * self.size)]
            sends = [("send", pointers[rank], _FIRST_BYTES, rank) for rank in others]
            receives = [("recv", pointers[self.size + rank], _FIRST_BYTES, rank) for rank in others]
            self._queue(sends + receives, self._exchange_stream)
            self._exchange_stream.synchronize()
        except Exception as error:  # raised again in the thread that transfers
            self._failure = error
        if self._is_aborted:
            self.abort()

    def _queue(self, transfers: list[tuple[str, int, int, int]], stream: Any) -> None:
        """Queue transfers as one group: (method of the communicator, address, number of bytes, rank)."""
        self._nccl.groupStart()
        for method, pointer, num_bytes, rank in transfers:
            getattr(self._communicator, method)(pointer, num_bytes, self._nccl.NCCL_UINT8, rank, stream.ptr)
        self._nccl.groupEnd()

    def _group(self, transfers: list[tuple[str, DeviceArray, int]], stream: Any) -> None:
        self.check()
        nccl, self._is_in_call = self._nccl, True
        try:
            self._connecting.join()
            if self._failure:
                raise self._failure
            self._queue([(method, array.data.ptr, array.nbytes, rank) for method, array, rank in transfers], stream)
        except (nccl.NcclError, AttributeError) as error:
            self._channel.wait_for_loss()
            raise DeviceError(f"NCCL failed: {error}") from error
        finally:
            self._is_in_call = False
