"""Options of several numbers."""

import math
from typing import Any

import click


class Numbers(click.ParamType):
    """`1,2.5,-3` -> (1.0, 2.5, -3.0): as many finite numbers as `name`, such as X,Y,Z, has parts."""

    def __init__(self, name: str) -> None:
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        try:
            numbers = tuple(float(part) for part in str(value).split(","))
        except ValueError:
            numbers = ()
        if len(numbers) != self.name.count(",") + 1 or not all(map(math.isfinite, numbers)):
            self.fail(f"{value!r}: expected {self.name}, finite numbers with commas between", param, ctx)
        return numbers
