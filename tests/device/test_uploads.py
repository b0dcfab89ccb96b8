"""Copies beside the device's work arrive before what comes after `join`, from any thread's memory."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np


def test_many_rounds(backend):
    """Each round's arrays take the place of those before, which are dropped as soon as they have been read."""
    uploads = backend.uploads()
    total = backend.xp.zeros(1000, np.int64)
    with ThreadPoolExecutor(4) as pool:
        for number in range(20):
            arrays = [np.full(1000, 10 * number + i, np.int64) for i in range(5)]
            here = [uploads.put(staged) for staged in pool.map(uploads.stage, arrays)]
            uploads.join()
            for array in here:
                total += array
            uploads.mark()()
    np.testing.assert_array_equal(backend.download(total), np.full(1000, sum(range(5)) * 20 + 50 * sum(range(20))))


def test_any_type_and_layout(backend):
    uploads = backend.uploads()
    array = np.arange(24, dtype=np.uint8).reshape(4, 6)[:, ::2]
    there = uploads.put(uploads.stage(array))
    uploads.join()
    np.testing.assert_array_equal(backend.download(there), array)


def test_what_is_recorded_after_a_copy_is_replayed(backend):
    """A copy leaves the backend's stream the one that work goes to."""
    uploads = backend.uploads()
    uploads.put(uploads.stage(np.zeros(4, np.uint8)))
    count = backend.xp.zeros(1, np.int32)

    def add():
        backend.xp.add(count, 1, out=count)

    add()  # loads its kernel, which a recording may not
    replay = backend.capture(add)
    replay()
    replay()
    assert int(backend.download(count)[0]) == 3
