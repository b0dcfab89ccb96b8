"""Calls in threads: order of results, errors, number of calls ahead."""

import threading
from functools import partial

import pytest

from splat_cli.processes.threads import run_in_threads


def test_results_come_in_order():
    assert list(run_in_threads((partial(pow, i, 2) for i in range(50)), 4)) == [i * i for i in range(50)]


@pytest.mark.parametrize(("num_ahead", "limit"), [(None, 3), (9, 9)])
def test_calls_are_taken_as_results_are_consumed(num_ahead, limit):
    taken = []

    def calls():
        for i in range(20):
            taken.append(i)
            yield partial(int, i)

    for result in run_in_threads(calls(), 3, num_ahead):
        assert len(taken) <= result + limit + 1


def test_other_threads_go_on_during_a_long_call():
    """The first call ends when the ninth has begun."""
    begun = threading.Event()
    calls = [partial(begun.wait, 10), *[partial(int)] * 7, begun.set]
    assert next(run_in_threads(calls, 2, 9))


def test_errors_replace_results():
    results = run_in_threads([partial(int, "1"), partial(int, "no number"), partial(int, "3")], 2)
    assert next(results) == 1
    with pytest.raises(ValueError, match="no number"):
        next(results)
