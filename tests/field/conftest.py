"""Fixtures of the field's tests."""

from tests.agreement import agreement  # noqa: F401
