"""docs/images/packages.svg is current."""

from pathlib import Path

from scripts.figures.draw_packages import _without_implied, packages_svg

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "packages.svg"


def test_the_drawing_of_the_packages_is_current():
    assert PICTURE.read_text() == packages_svg(), "run scripts/figures/draw_packages.py"


def test_implied_arrows_are_left_out():
    assert _without_implied({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}
