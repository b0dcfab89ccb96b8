"""Construction of HTML and SVG; text is escaped, markup is not."""

from html import escape

_VOID = {"br", "img", "input"}  # elements without an end tag


class Markup(str):
    """Text that is HTML."""

    __slots__ = ()


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """The element `name`. `class_` writes the attribute class, `stroke_width` writes stroke-width; None is omitted."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def join(*parts: object) -> Markup:
    """Concatenation of the parts; None is skipped."""
    return Markup(
        "".join(part if isinstance(part, Markup) else escape(str(part)) for part in parts if part is not None)
    )


def prose(text: str) -> Markup:
    """Text in which `code` stands in backticks."""
    return join(*(tag("code", part) if number % 2 else part for number, part in enumerate(text.split("`"))))
