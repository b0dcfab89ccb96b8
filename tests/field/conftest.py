"""Fixtures of the field's tests."""

from tests.compare import comparison  # noqa: F401
