"""Clean-up between tests of clusters."""

import gc

import pytest


@pytest.fixture(autouse=True)
def collected():
    """Close sockets that a test leaves open, with a warning, before the next test."""
    yield
    gc.collect()
