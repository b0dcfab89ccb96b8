"""Calls in threads, with a bounded number of waiting results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def run_in_threads(calls: Iterable[Callable[[], T]], num_threads: int, num_ahead: int | None = None) -> Iterator[T]:
    """The results of the calls, in order; a call's exception is raised instead of its result.

    Unlike `Executor.map`, takes the next call only while at most `num_ahead` results, by default `num_threads`, are
    unfinished or not consumed, so that pictures do not pile up in memory. Threads wait for the oldest result that is
    unfinished: for calls of very different lengths, give more.

        for _ in run_in_threads((partial(save, frame) for frame in rendered()), 8):
            progress(1)
    """
    num_ahead = num_threads if num_ahead is None else num_ahead
    with ThreadPoolExecutor(num_threads) as pool:
        pending: deque[Future[T]] = deque()
        for call in calls:
            pending.append(pool.submit(call))
            if len(pending) > num_ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
