"""A folder of kernel sources for tests of compilation."""

import pytest

from tests.device.compilation.small_kernel import KERNEL


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A folder with a kernel file and its header, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "k.cu").write_text(KERNEL)
    (folder / "value.cuh").write_text('#include "deeper.cuh"\n')
    (folder / "deeper.cuh").write_text("#define VALUE 1\n")
    return folder
