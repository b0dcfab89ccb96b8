"""Fixtures of the loss's and the optimiser's tests."""

from tests.compare import comparison  # noqa: F401
