"""Clean-up between tests of clusters."""

import gc

import pytest


@pytest.fixture(autouse=True)
def collected():
    """Sockets that a test leaves open are closed, and warned of, before the next test."""
    yield
    gc.collect()
