"""Asynchronous uploads from any thread arrive before work that is queued after `join`."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest


def test_many_rounds(backend):
    """Each round replaces the previous arrays, which are freed right after they have been read."""
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


@pytest.mark.parametrize("disturb", ["a copy", "a download of a part"])
def test_capture_after_a_copy_is_replayed(backend, disturb):
    """A copy does not change the backend's stream; a capture of another stream would be empty."""
    count = backend.xp.zeros((4, 4), np.int32)
    if disturb == "a copy":
        uploads = backend.uploads()
        uploads.put(uploads.stage(np.zeros(4, np.uint8)))
    else:
        backend.download(count[:2, :3])

    def fill():
        backend.fill(count, 3)

    fill()  # loads its kernel now: a capture must not load kernels
    replay = backend.capture_graph(fill)
    count[...] = 0
    replay()
    assert (backend.download(count) == 3).all()
