"""Atomic writing of files."""

import threading
from concurrent.futures import ThreadPoolExecutor

from splat_cli.io.files import replacing


def test_threads_that_write_one_file_do_not_share_a_temporary_file(tmp_path):
    """One renamed the file that another was still writing: damaged, or "renaming had no effect"."""
    both, path = threading.Barrier(2, timeout=60), tmp_path / "a.txt"

    def write(text):
        with replacing(path) as temporary:
            temporary.write_text(text)
            both.wait()
            assert temporary.read_text() == text
            both.wait()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, ("one", "two")))
    assert path.read_text() in ("one", "two")
    assert list(tmp_path.iterdir()) == [path]
