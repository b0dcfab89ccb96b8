"""Choice of the pairs of photographs that are matched."""

import pytest

from splat_cli.scene.sfm.mapping import Mapping, are_frames, choose_matcher, sequential_pairs
from splat_cli.scene.view import natural_order

FRAMES = [f"frame_{number:05d}.jpg" for number in range(1, 151)]
PHOTOGRAPHS = [f"{number * number}.jpg" for number in range(150)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (FRAMES, True),
        ([f"{number}.png" for number in range(7, 90)], True),  # not padded
        (FRAMES[::4], True),
        (FRAMES[:50] + FRAMES[60:], False),
        (PHOTOGRAPHS, False),
        ([f"a/{name}" for name in FRAMES[:75]] + [f"b/{name}" for name in FRAMES[75:]], False),
        (["garden.jpg", *FRAMES], False),
        (["1.jpg"], False),
    ],
)
def test_frames_are_numbered_in_even_steps(names, expected):
    assert are_frames(names) == expected


@pytest.mark.parametrize(
    ("names", "is_video", "have_camera", "expected"),
    [
        (FRAMES, True, False, "sequential"),
        (FRAMES, False, False, "sequential"),
        (FRAMES, False, True, "exhaustive"),  # photographs of a camera that numbers them
        (FRAMES[:20], True, False, "exhaustive"),
        (FRAMES[:59], False, False, "exhaustive"),
        (PHOTOGRAPHS, False, False, "exhaustive"),
        (PHOTOGRAPHS * 2, False, True, "sequential"),
    ],
)
def test_the_matcher_suits_the_photographs(names, is_video, have_camera, expected):
    assert choose_matcher("auto", names, is_video, have_camera) == expected
    for matcher in ("exhaustive", "sequential"):
        assert choose_matcher(matcher, names, is_video, have_camera) == matcher


def test_frames_are_matched_with_neighbours_and_key_frames():
    names = [f"{number}.jpg" for number in range(150)]  # as text, 10 comes before 2
    pairs = [tuple(int(name.removesuffix(".jpg")) for name in pair) for pair in sequential_pairs(sorted(names))]
    assert len(set(pairs)) == len(pairs) < 0.25 * 150 * 149 / 2
    assert all(first < second for first, second in pairs)
    for offset in (1, 10, 16, 128):
        assert all((i, i + offset) in pairs for i in range(150 - offset))
    assert (0, 149) in pairs  # closes a loop
    assert not any((i, i + 11) in pairs for i in (1, 2, 3))


def test_advice_names_the_matcher_only_after_sequential_matching():
    few = (10, ["a.jpg"] * 5, 100, 0.5, 4.0, 2, None)
    assert not any("--matcher" in line for line in Mapping(*few, "exhaustive").advice())
    assert any("--matcher exhaustive" in line for line in Mapping(*few, "sequential").advice())


def test_numbers_order_names_and_other_digits_do_not():
    """A superscript two is a digit to `str.isdigit`, and no number to `int`."""
    names = ["a10.jpg", "a2.jpg", "1\u00b22.jpg"]
    assert sorted(names, key=natural_order) == ["a2.jpg", "a10.jpg", "1\u00b22.jpg"]
