"""Fixtures of the loss's and the optimiser's tests."""

from tests.agreement import agreement  # noqa: F401
