"""Type of a setting: kind, range, default, help and facts for other modules; conversion from and to text."""

import dataclasses
import numbers
import os
import reprlib
import types
import typing
from dataclasses import dataclass
from typing import Any, TypeVar

from splat_cli.errors import UsageError

T = TypeVar("T")

MAX_FLOAT = 3e38
"""Kernels compute with 32-bit floats."""

Values = bool | tuple[str, ...]
"""Values for which a fact holds: some of the choices; True: all except the default and values that mean "off"."""

_OFF = (None, False, 0, "none")
_SHOWN = reprlib.Repr()  # shortens values from files, which may be long or deeply nested
_SHOWN.maxstring = _SHOWN.maxother = 100
_NOUNS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", tuple: "whole numbers"}


def setting(
    default: T,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    metavar: str = "",
    common: bool = False,
    fixed: bool = False,
    needs: str = "",
    idle_with: str = "",
    single_gpu: Values = False,
    batches: bool = False,
    not_in_city: Values = False,
) -> T:
    """A dataclass field that declares a setting; `low` and `high` are inclusive and apply to each entry of a tuple.

    metavar: placeholder of the value in the help of the command line. common: shown by --help, not only by --help-all.
    fixed: cannot change when a run is resumed: it is read only at the start, or defines held-out views or checkpoint
    arrays. needs: option without which the setting has no effect: "--eval", "--color field", "--init-from or --frozen".
    idle_with: options with which it has no effect, in the same form.
    single_gpu: values that do not work with --gpus. batches: with these values, long runs still train in batches by
    default, because measured quality was as good. Other values for a single GPU turn this default off. not_in_city:
    values that do not work with `splat city`.
    """
    metadata = {key: value for key, value in locals().items() if key != "default"}
    return dataclasses.field(default=default, metadata=metadata)


def range_text(low: float | None, high: float | None, low_is_open: bool = False) -> str:
    """A range of numbers in words: "1 or more", "0 to 3", "over 0 to 5"; empty without limits."""
    over = "over " if low_is_open else ""
    if low is not None and high is not None:
        return f"{over}{low:.12g} to {high:.12g}"
    if low is not None:
        return f"over {low:.12g}" if low_is_open else f"{low:.12g} or more"
    return "" if high is None else f"at most {high:.12g}"


@dataclass(frozen=True)
class Setting:
    """One declared setting; `kind` is int, float, bool, str or tuple (of ints). The other fields: see `setting`."""

    name: str
    kind: type
    optional: bool
    default: Any
    help: str
    group: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]
    metavar: str
    common: bool
    fixed: bool
    needs: str
    idle_with: str
    single_gpu: Values
    batches: bool
    not_in_city: Values

    @property
    def option(self) -> str:
        """Command-line option: `--max-splats`."""
        return "--" + self.name.replace("_", "-")

    @property
    def description(self) -> str:
        """The help, with the options that the setting needs, or with which it has no effect."""
        about = f"{self.help} Not with {self.idle_with}." if self.idle_with else self.help
        if not self.needs:
            return about
        first = about[0] if about[1].isupper() else about[0].lower()  # "SH degree"
        return f"With {self.needs}, {first}{about[1:]}"

    @property
    def bounds(self) -> str:
        """The range in words, empty without one: "1 or more", "0 to 3"."""
        return range_text(self.low, self.high)

    @property
    def expected(self) -> str:
        """Description of valid values."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        return f"{_NOUNS[self.kind]}{', ' if self.bounds else ''}{self.bounds}"

    def is_on(self, value: Any) -> bool:
        """Whether `value` turns something on, that is, is not None, "none", false or 0."""
        return value not in _OFF

    def check(self, value: Any) -> Any:
        """`value` converted to the type of the setting. UsageError for a wrong type or range."""
        if value is None and self.optional:
            return None
        value = self._convert(value)
        entries = value if self.kind is tuple else (value,)
        if (self.choices and value not in self.choices) or (self.kind is str and "\0" in value):
            raise self._wrong(value)
        if self.kind in (int, float, tuple) and not all(self._inside(entry) for entry in entries):
            raise self._wrong(value)
        return value

    def parse(self, text: str) -> Any:
        """The value of a command-line argument; tuples are comma-separated. UsageError."""
        try:
            if self.kind is tuple:
                return self.check([int(entry) for entry in text.split(",") if entry.strip()])
            return self.check(self.kind(text))
        except ValueError:
            raise self._wrong(text) from None

    def show(self, value: Any) -> str:
        """`value` as text."""
        if value is None:
            return "none"
        if isinstance(value, bool):
            return "on" if value else "off"
        return (",".join(map(str, value)) or "none") if self.kind is tuple else str(value)

    def _convert(self, value: Any) -> Any:
        """The value as the setting's type; programs also pass NumPy's numbers and paths."""
        if self.kind is tuple and isinstance(value, list | tuple):
            value = tuple(map(_plain, value))
            if all(type(entry) is int for entry in value):
                return value
        value = _plain(value)
        if self.kind is str and isinstance(value, os.PathLike):
            value = os.fspath(value)
        if self.kind is float and type(value) is int and abs(value) < 2**1000:
            return float(value)
        if type(value) is not self.kind or self.kind is tuple:
            raise self._wrong(value)
        return value

    def _inside(self, number: float) -> bool:
        above = self.low is None or number >= self.low
        below = self.high is None or number <= self.high
        return above and below and (isinstance(number, int) or abs(number) <= MAX_FLOAT)

    def _wrong(self, value: Any) -> UsageError:
        is_huge = isinstance(value, int) and value.bit_length() > 1000  # Python refuses to print very long integers
        return UsageError(
            f"{self.name} = {'a huge number' if is_huge else _SHOWN.repr(value)}: expected {self.expected}"
        )


def settings_of(config_class: type) -> dict[str, Setting]:
    """Settings that a dataclass declares with `setting`, in the order of its fields.

    The group of a setting is the GROUP of the base class that declares it.
    """
    hints = typing.get_type_hints(config_class)
    groups = {name: vars(base)["GROUP"] for base in config_class.__bases__ for name in base.__annotations__}
    found = {}
    for field in dataclasses.fields(config_class):
        kind, optional = _kind_of(hints[field.name])
        found[field.name] = Setting(
            field.name, kind, optional, field.default, group=groups[field.name], **field.metadata
        )
    return found


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's int or float; other values unchanged."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) and not isinstance(value, int) else value


def _kind_of(hint: Any) -> tuple[type, bool]:
    """`int | None` -> (int, True); `tuple[int, ...]` -> (tuple, False)."""
    optional = isinstance(hint, types.UnionType)
    if optional:
        (hint,) = (part for part in typing.get_args(hint) if part is not types.NoneType)
    return typing.get_origin(hint) or hint, optional
