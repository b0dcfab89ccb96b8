"""docs/images/rooms.svg is current."""

from pathlib import Path

from scripts.draw_rooms import _without_implied, rooms_svg

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "rooms.svg"


def test_the_drawing_of_the_rooms_is_current():
    assert PICTURE.read_text() == rooms_svg(), "run: python scripts/draw_rooms.py > docs/images/rooms.svg"


def test_implied_arrows_are_left_out():
    assert _without_implied({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}
