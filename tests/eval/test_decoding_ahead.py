"""Photographs of an evaluation are decoded on access, in order and a limited number ahead."""

from collections.abc import Sequence

import pytest

from splat_cli.eval.evaluate import DECODED_AHEAD, decoded_ahead
from splat_cli.scene.images.image_set import ImageSet
from tests.views import ring_of_views


class Recorded(Sequence):
    """Numbers as images or masks; `read` counts accesses."""

    def __init__(self, count: int) -> None:
        self.count, self.read = count, 0

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index):
        self.read += 1
        return index


def test_order_and_limit():
    images, masks = Recorded(40), Recorded(40)
    for number, pair in enumerate(decoded_ahead(ImageSet(ring_of_views(40), images, masks, []))):
        assert pair == (number, number)
        assert images.read <= number + 2 + DECODED_AHEAD
    assert images.read == masks.read == 40


def test_an_error_of_decoding_is_raised():
    class Broken(Recorded):
        def __getitem__(self, index):
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(decoded_ahead(ImageSet(ring_of_views(3), Broken(3), Recorded(3), [])))
