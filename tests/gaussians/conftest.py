"""Kernels on every device this machine has."""

import pytest

from splat_cli.device import open_backend
from splat_cli.errors import DeviceError


@pytest.fixture(scope="session", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def backend(request):
    try:
        return open_backend(request.param)
    except DeviceError as error:
        pytest.skip(str(error))
