"""HTML and SVG as Python calls: everything that is not markup already is escaped."""

from html import escape

_VOID = {"br", "img", "input"}  # elements that have no end


class Markup(str):
    """Text that is HTML."""

    __slots__ = ()


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """The element `name`. Of its attributes `class_` means class, `stroke_width` stroke-width; None leaves one out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def join(*parts: object) -> Markup:
    """The parts one after the other; None is nothing."""
    return Markup(
        "".join(part if isinstance(part, Markup) else escape(str(part)) for part in parts if part is not None)
    )
