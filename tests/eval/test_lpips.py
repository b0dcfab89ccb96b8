"""LPIPS: input of the package, with stand-ins for it and PyTorch; its values, if both and the weights are here."""

import contextlib
import functools
import sys
import types
from urllib.error import URLError

import numpy as np
import pytest

from splat_cli.errors import UsageError
from splat_cli.eval.metrics import Lpips


class Tensor(np.ndarray):
    def to(self, device):
        assert device == "cpu"
        return self


class Network:
    """Stand-in of lpips.LPIPS, which returns the mean difference."""

    def __init__(self, net, version, verbose):
        self.made, self.given = (net, version, verbose), []

    def eval(self):
        return self

    def to(self, device):
        return self

    def __call__(self, first, second):
        self.given += [first, second]
        return np.abs(first - second).mean()


@pytest.fixture
def packages(monkeypatch):
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(is_available=lambda: False)
    torch.inference_mode = contextlib.nullcontext
    torch.from_numpy = lambda array: array.view(Tensor)
    lpips = types.ModuleType("lpips")
    lpips.LPIPS = Network
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "lpips", lpips)
    return lpips


def pair(height=64, width=70):
    return np.random.default_rng(0).integers(0, 256, (2, height, width, 3), dtype=np.uint8)


def test_the_network_gets_planes_from_minus_one_to_one(packages):
    lpips = Lpips("alex")
    x, y = pair()
    x[0, 0], x[0, 1] = 0, (255, 0, 51)
    assert lpips.score(x, y) > 0
    assert lpips._model.made == ("alex", "0.1", False)
    first, second = lpips._model.given
    assert (first.shape, first.dtype) == ((1, 3, 64, 70), np.float32)
    assert (first[0, :, 0, 0] == -1).all()
    np.testing.assert_allclose(first[0, :, 0, 1], [1, -1, -0.6], atol=1e-6)
    np.testing.assert_allclose(second[0], y.transpose(2, 0, 1) / 127.5 - 1, atol=1e-6)


def test_excluded_pixels_count_as_equal(packages):
    (x, y), mask = pair(), np.full((64, 70), 255, np.uint8)
    mask[:, 30:] = 0
    lpips = Lpips("vgg")
    assert lpips.score(x, y, mask) < lpips.score(x, y)
    first, second = lpips._model.given[:2]
    assert (first[..., 30:] == second[..., 30:]).all()
    assert (first[..., :30] != second[..., :30]).any()
    assert lpips.score(y, y) == 0


def test_small_images_are_refused(packages):
    with pytest.raises(UsageError, match="70x63"):
        Lpips("vgg").score(*pair(63))


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "lpips", None)
    with pytest.raises(UsageError, match=r"splat-cli\[lpips\]"):
        Lpips("vgg")


def test_weights_that_cannot_be_downloaded_are_named(packages):
    def fail(**options):
        raise URLError("no network")

    packages.LPIPS = fail
    with pytest.raises(UsageError, match="weights"):
        Lpips("vgg")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # the package uses deprecated names of torchvision
@pytest.mark.parametrize("network", ["alex", "vgg"])
def test_values_match_the_package(network, monkeypatch):
    """Against the package's own functions for images. Its weights on top of the network are part of the package;
    the network's are a download, and random ones show the same differences of the input.
    """
    package, torch = pytest.importorskip("lpips"), pytest.importorskip("torch")
    made = functools.partial(package.LPIPS, pnet_rand=True)
    monkeypatch.setattr(package, "LPIPS", made)
    torch.manual_seed(0)
    lpips = Lpips(network)
    torch.manual_seed(0)
    expected = made(net=network)
    for height, width in (64, 70), (181, 240):
        x, y = pair(height, width)
        y = np.where(np.arange(width)[:, None] < width // 2, x, y)  # half of it is equal
        value = expected(package.im2tensor(x), package.im2tensor(y)).item()
        assert lpips.score(x, y) == pytest.approx(value, rel=1e-3)
        assert value > 0
