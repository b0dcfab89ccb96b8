"""Calls in threads: order of results, errors, number of calls ahead."""

from functools import partial

import pytest

from splat_cli.processes.threads import run_in_threads


def test_results_come_in_order():
    assert list(run_in_threads((partial(pow, i, 2) for i in range(50)), 4)) == [i * i for i in range(50)]


def test_calls_are_taken_as_results_are_consumed():
    taken = []

    def calls():
        for i in range(20):
            taken.append(i)
            yield partial(int, i)

    for result in run_in_threads(calls(), 3):
        assert len(taken) <= result + 4


def test_errors_replace_results():
    results = run_in_threads([partial(int, "1"), partial(int, "no number"), partial(int, "3")], 2)
    assert next(results) == 1
    with pytest.raises(ValueError, match="no number"):
        next(results)
