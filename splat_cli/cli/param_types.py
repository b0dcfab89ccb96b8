"""Click types of options: numbers in a range, coordinates, sizes, colours, formats."""

from __future__ import annotations

import math
from typing import Any

import click
from click.shell_completion import CompletionItem

from splat_cli.config.setting import range_text
from splat_cli.errors import UsageError
from splat_cli.io.color import parse_color

_MAX_SIDE = 16384
_METRES = {"mm": 0.001, "cm": 0.01, "m": 1.0, "km": 1000.0, "in": 0.0254, "ft": 0.3048, "": 1.0}


class WholeRange(click.IntRange):
    """Integer in a range; help and errors describe the range as for settings."""

    def _describe_range(self) -> str:
        return range_text(self.min, self.max)


class FiniteRange(click.FloatRange):
    """Finite number in a range; click would accept NaN in any range."""

    def _describe_range(self) -> str:
        return range_text(self.min, self.max, self.min_open)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r}: expected a finite number", param, ctx)
        return number


class Numbers(click.ParamType):
    """`1,2.5,-3` -> (1.0, 2.5, -3.0): one finite number per part of `name`, such as X,Y,Z."""

    def __init__(self, name: str) -> None:
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        try:
            numbers = tuple(float(part) for part in str(value).split(","))
        except ValueError:
            numbers = ()
        if len(numbers) != self.name.count(",") + 1 or not all(map(math.isfinite, numbers)):
            self.fail(f"{value!r}: expected {self.name}, finite numbers separated by commas", param, ctx)
        return numbers


class Length(click.ParamType):
    """`1.25m` -> 1.25 metres; also mm, cm, km, in and ft. A number without a unit counts as metres."""

    name = "LENGTH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip().lower()
        number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
        try:
            metres = float(number) * _METRES[text[len(number) :].strip()]
        except (ValueError, KeyError):
            metres = math.nan
        if not 0 < metres < math.inf:
            self.fail(f"{value!r}: expected a length over 0 in mm, cm, m, km, in or ft, like 1.25m", param, ctx)
        return metres


class Size(click.ParamType):
    """`1280x720` -> (1280, 720) pixels."""

    name = "WxH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        width, _, height = str(value).lower().partition("x")
        if not all(side.isdecimal() and 1 <= int(side) <= _MAX_SIDE for side in (width, height)):
            self.fail(f"{value!r}: expected a width and a height of 1 to {_MAX_SIDE} pixels, like 1280x720", param, ctx)
        return int(width), int(height)


class Color(click.ParamType):
    """`black`, `white` or `r,g,b` (0 to 255) -> three numbers from 0 to 1."""

    name = "COLOR"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float, float]:
        try:
            return parse_color(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)


class FormatName(click.ParamType):
    """A splat format, or html; the table of formats is loaded on first use."""

    name = "format"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return self._choice().convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return f"[{'|'.join(self._choice().choices)}]"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return self._choice().shell_complete(ctx, param, incomplete)

    def _choice(self) -> click.Choice[str]:
        from splat_cli.gaussians.formats import FORMATS

        return click.Choice([*FORMATS, "html"])
