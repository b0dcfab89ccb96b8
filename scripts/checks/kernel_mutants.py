"""Mutants of a CUDA file: copies of its source, each with one line changed or removed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from mutants import Mutant

_SWAPPED = {
    " + ": " - ", " - ": " + ", " * ": " / ", " / ": " * ", " < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ",
    " == ": " != ", " != ": " == ", " && ": " || ", " || ": " && ", " += ": " -= ", " -= ": " += ", "min(": "max(",
    "max(": "min(", "fminf(": "fmaxf(", "fmaxf(": "fminf(",
}  # fmt: skip
_OPERATOR = re.compile(
    "|".join(rf"(?<![a-z]){re.escape(text)}" if "(" in text else re.escape(text) for text in _SWAPPED)
)
_NUMBER = re.compile(r"(?<![\w.])(\d+\.\d*(?:e-?\d+)?f|\d+)(?![\w.])")
_CONDITION = re.compile(r"\b(if|while) \((.+?)\)(?= |$)")
_STATEMENT = re.compile(r"^\s*(if \(.*\) (return|continue|break)|[\w.\[\]>()\->]+ ([-+*|&]?=) .*|\w+\(.*\));$")
_SAYS_NOTHING = re.compile(
    r"^\s*(#|//|template|struct|using|static_assert|extern|__device__|__global__|\}|$)|__launch_bounds__|__restrict__|"
    r"(THREADS|WARPS|BLOCKS)\b.*=|__syncwarp|assert\(|__builtin_prefetch"
)
"""Lines with useless mutants: signatures, types, launch shapes and hints, which change times but not results."""


_CPU_BRANCH = re.compile(r"#ifdef SPLAT_CPU")
_GPU_BRANCH = re.compile(r"#if TENSOR_CORES|#if __CUDA_ARCH__|#ifndef SPLAT_CPU|#else of CPU")


def kernel_mutants_of(source: str) -> list[Mutant]:
    """All mutants of a CUDA file's source; some do not compile."""
    lines = source.splitlines(keepends=True)
    mutants = []
    is_compiled = list(_compiled_on_cpu(lines))
    for index, line in enumerate(lines):
        code = line.split("//")[0].rstrip()
        if _SAYS_NOTHING.search(line) or not is_compiled[index]:
            continue
        for changed in _changes(code):
            text = "".join([*lines[:index], f"{changed}\n", *lines[index + 1 :]])
            mutants.append(Mutant(index + 1, code.strip(), changed.strip() or "nothing", text))
    return mutants


def _compiled_on_cpu(lines: Iterable[str]) -> Iterator[bool]:
    """Whether the CPU backend compiles each line, possibly only with some macros; not so GPU branches."""
    opened: list[str] = []  # the conditions around a line, "#else" after one for the CPU
    for line in lines:
        if line.startswith("#if"):
            opened.append(line)
        elif line.startswith("#else"):
            opened[-1] = "#else of CPU" if _CPU_BRANCH.match(opened[-1]) else "#else"
        elif line.startswith("#endif"):
            opened.pop()
        yield not any(_GPU_BRANCH.match(condition) for condition in opened)


def _changes(code: str) -> Iterator[str]:
    """The line with one operator, number or condition changed, or without its statement."""
    yield from _replaced(code, _OPERATOR, lambda text: _SWAPPED[text])
    yield from _replaced(code, _NUMBER, _other_number)
    for found in _CONDITION.finditer(code):
        yield f"{code[: found.start(2)]}!({found[2]}){code[found.end(2) :]}"
    if _STATEMENT.match(code):
        yield ""


def _replaced(code: str, pattern: re.Pattern[str], change: Callable[[str], str]) -> Iterator[str]:
    for found in pattern.finditer(code):
        yield code[: found.start()] + change(found[0]) + code[found.end() :]


def _other_number(text: str) -> str:
    if not text.endswith("f"):
        return str(int(text) + 1)
    value = float(text[:-1])
    return f"{2 * value if value else 1.0!r}f"
