"""Calls in threads, with a bounded number of waiting results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def run_in_threads(calls: Iterable[Callable[[], T]], num_threads: int) -> Iterator[T]:
    """The results of the calls, in order; a call's exception is raised instead of its result.

    Unlike `Executor.map`, takes the next call only while at most `num_threads` results are unfinished or not consumed,
    so that pictures do not pile up in memory.

        for _ in run_in_threads((partial(save, frame) for frame in rendered()), 8):
            progress(1)
    """
    with ThreadPoolExecutor(num_threads) as pool:
        pending: deque[Future[T]] = deque()
        for call in calls:
            pending.append(pool.submit(call))
            if len(pending) > num_threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
