"""Check of the error for a damaged file."""

import re

import pytest

from splat_cli.errors import FormatError
from splat_cli.gaussians.formats import read_splats

_OF_PYTHON = re.compile(
    r"\w+Error|NoneType|object (is|at)|has no attribute|subscript|indices|argument|hashable|dtype|broadcast|reshape|"
    r"codec|unpack requires|out of bounds|at 0x|<"
)


def assert_one_line(path):
    """The error message: one short line without Python terms."""
    with pytest.raises(FormatError) as caught:
        read_splats(path)
    assert path.name in str(caught.value)
    message = str(caught.value).replace(str(path), path.name)
    assert "\n" not in message
    assert not _OF_PYTHON.search(message), message
    assert len(message) < 300, message
    return str(caught.value)
