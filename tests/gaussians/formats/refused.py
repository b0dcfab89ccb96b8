"""How reading a damaged file must end."""

import pytest

from splat_cli.errors import FormatError
from splat_cli.gaussians.formats import read_splats


def assert_one_line(path):
    """The message of the refusal."""
    with pytest.raises(FormatError) as caught:
        read_splats(path)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)
